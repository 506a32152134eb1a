#include "python/gil.hpp"

void bind_numeric(nanobind::module_& m);
void bind_svmlight(nanobind::module_& m);
void bind_vocabulary(nanobind::module_& m);
void bind_core(nanobind::module_& m);
void bind_surrogates(nanobind::module_& m);
void bind_cuts(nanobind::module_& m);
void bind_max_marginals(nanobind::module_& m);
void bind_moves(nanobind::module_& m);
void bind_clique_moves(nanobind::module_& m);
void bind_messages(nanobind::module_& m);
void bind_relaxations(nanobind::module_& m);
void bind_roundings(nanobind::module_& m);
void bind_ranking_lists(nanobind::module_& m);
void bind_ranking_shards(nanobind::module_& m);
void bind_multiclass(nanobind::module_& m);
void bind_sequence_blocks(nanobind::module_& m);
void bind_sequence_trees(nanobind::module_& m);
void bind_label_search(nanobind::module_& m);
void bind_multilabel(nanobind::module_& m);
void bind_hierarchy(nanobind::module_& m);
void bind_parsing(nanobind::module_& m);
void bind_vision(nanobind::module_& m);
void bind_registration(nanobind::module_& m);

NB_MODULE(_core, m) {
    // A traceback that is alive when the interpreter ends may hold solvers; that is no leak to frighten users with.
    nanobind::set_leak_warnings(false);
    watch_interpreter_exit();
    m.doc() = "Compiled kernels of maxmargin; the Python modules beside it document and check what goes in.";
    // Lowest layer first: a base class must be registered before the classes that derive from it.
    bind_numeric(m);
    bind_svmlight(m);
    bind_vocabulary(m);
    bind_core(m);
    bind_surrogates(m);
    bind_cuts(m);
    bind_max_marginals(m);
    bind_moves(m);
    bind_clique_moves(m);
    bind_messages(m);
    bind_relaxations(m);
    bind_roundings(m);
    bind_ranking_lists(m);
    bind_ranking_shards(m);
    bind_multiclass(m);
    bind_sequence_blocks(m);
    bind_sequence_trees(m);
    bind_label_search(m);
    bind_multilabel(m);
    bind_hierarchy(m);
    bind_parsing(m);
    bind_vision(m);
    bind_registration(m);
}
