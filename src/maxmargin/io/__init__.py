"""Files: svmlight, CSV, ARFF and Parquet readers, query ids, encodings of columns, and the archive that models are saved in."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.io.archive import Label, SavedFileError, can_store, is_archive, read_archive, read_label, write_archive
    from maxmargin.io.arff import ArffTable, Row, feature_columns, read_arff
    from maxmargin.io.byte_ranges import bytes_between, glance, load_svmlight_part, owned
    from maxmargin.io.columns import Table, Wanted, choose
    from maxmargin.io.encoding import Encoding, UnseenCategoryWarning
    from maxmargin.io.label_columns import Missing, columns_of, filled
    from maxmargin.io.loading import READERS, is_table, load
    from maxmargin.io.one_column import read_column
    from maxmargin.io.parquet import RowGroups, read_parquet, row_group_bytes
    from maxmargin.io.places import Files, expand, is_compressed, is_url, opened, opened_raw, stamp
    from maxmargin.io.queries import Codes, Names, counts_in_lists, first_split, in_input_order, query_offsets
    from maxmargin.io.ranking_data import RankingData
    from maxmargin.io.source import (
        DataError,
        Source,
        blocks,
        finite_score,
        format_suffix,
        lines,
        name_of,
        number,
        open_binary,
        read_scores,
    )
    from maxmargin.io.svmlight import (
        FeatureIndexError,
        check_numbering,
        file_of_queries,
        load_svmlight,
        load_svmlight_lines,
        read_labels,
    )
    from maxmargin.io.table import SVMLIGHT_LINE, column_names, load_table, load_wanted, read_table, true_or_false
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
