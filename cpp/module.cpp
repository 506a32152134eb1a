#include "python/gil.hpp"

void bind_blocks(nanobind::module_& m);
void bind_clique_moves(nanobind::module_& m);
void bind_data(nanobind::module_& m);
void bind_encoding(nanobind::module_& m);
void bind_graphcut(nanobind::module_& m);
void bind_label_sets(nanobind::module_& m);
void bind_moves(nanobind::module_& m);
void bind_messages(nanobind::module_& m);
void bind_max_marginals(nanobind::module_& m);
void bind_numeric(nanobind::module_& m);
void bind_parsing(nanobind::module_& m);
void bind_pictures(nanobind::module_& m);
void bind_product_search(nanobind::module_& m);
void bind_ranking(nanobind::module_& m);
void bind_registration(nanobind::module_& m);
void bind_relaxations(nanobind::module_& m);
void bind_roundings(nanobind::module_& m);
void bind_scattered(nanobind::module_& m);
void bind_structures(nanobind::module_& m);
void bind_surrogates(nanobind::module_& m);

NB_MODULE(_core, m) {
    // A traceback that is alive when the interpreter ends may hold solvers; that is no leak to frighten users with.
    nanobind::set_leak_warnings(false);
    watch_interpreter_exit();
    m.doc() = "Compiled kernels of maxmargin; the Python modules beside it document and check what goes in.";
    bind_blocks(m);
    bind_clique_moves(m);
    bind_data(m);
    bind_encoding(m);
    bind_graphcut(m);
    bind_label_sets(m);
    bind_moves(m);
    bind_messages(m);
    bind_max_marginals(m);
    bind_numeric(m);
    bind_parsing(m);
    bind_pictures(m);
    bind_product_search(m);
    bind_ranking(m);
    bind_registration(m);
    bind_relaxations(m);
    bind_roundings(m);
    bind_scattered(m);
    bind_structures(m);
    bind_surrogates(m);
}
