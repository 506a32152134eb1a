"""Files: svmlight, CSV, ARFF and Parquet readers, query ids, encodings of columns, and the archive that models are saved in."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.io.archive import Label, SavedFileError, can_store, is_archive, read_archive, read_label, write_archive
    from maxmargin.io.arff import ArffTable as ArffTable
    from maxmargin.io.arff import Row, feature_columns
    from maxmargin.io.arff import read_arff as read_arff
    from maxmargin.io.byte_ranges import bytes_between, glance, load_svmlight_part, owned
    from maxmargin.io.columns import Table, choose
    from maxmargin.io.columns import Wanted as Wanted
    from maxmargin.io.encoding import Encoding as Encoding
    from maxmargin.io.encoding import UnseenCategoryWarning as UnseenCategoryWarning
    from maxmargin.io.label_columns import Missing, columns_of, filled
    from maxmargin.io.loading import READERS as READERS
    from maxmargin.io.loading import is_table as is_table
    from maxmargin.io.loading import load as load
    from maxmargin.io.one_column import read_column
    from maxmargin.io.parquet import RowGroups, read_parquet, row_group_bytes
    from maxmargin.io.places import Files, expand, is_compressed, is_url, opened, opened_raw, stamp
    from maxmargin.io.queries import Codes, Names, counts_in_lists, first_split, in_input_order, query_offsets
    from maxmargin.io.ranking_data import RankingData as RankingData
    from maxmargin.io.source import DataError as DataError
    from maxmargin.io.source import Source, blocks, finite_score, format_suffix, lines, name_of, number, open_binary
    from maxmargin.io.source import read_scores as read_scores
    from maxmargin.io.svmlight import FeatureIndexError as FeatureIndexError
    from maxmargin.io.svmlight import check_numbering, file_of_queries, load_svmlight_lines
    from maxmargin.io.svmlight import load_svmlight as load_svmlight
    from maxmargin.io.svmlight import read_labels as read_labels
    from maxmargin.io.table import SVMLIGHT_LINE, column_names, true_or_false
    from maxmargin.io.table import load_table as load_table
    from maxmargin.io.table import load_wanted as load_wanted
    from maxmargin.io.table import read_table as read_table
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
