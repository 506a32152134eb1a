// Python face of the readers: bytes in, arrays out, interpreter lock released.
#include <nanobind/stl/optional.h>

#include <optional>
#include <string>
#include <string_view>

#include "io/query_lines.hpp"
#include "io/svmlight.hpp"
#include "python/arrays.hpp"

using namespace maxmargin::data;

namespace {

// The array takes over the memory.
template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> handed_over(Growing<T>& values) {
    const std::size_t size = values.size();
    T* memory = values.release();
    nb::capsule owner(memory, [](void* p) noexcept { std::free(p); });
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(memory, {size}, owner);
}

template <class T>
void feed(SvmlightParser<T>& parser, const InputVector<std::uint8_t>& block) {
    ScopedGilRelease unlocked;
    parser.feed(reinterpret_cast<const char*>(block.data()), block.size());
}

template <class T>
nb::dict finish(SvmlightParser<T>& parser) {
    {
        ScopedGilRelease unlocked;
        parser.finish();
    }
    nb::list names;
    for (const std::string& name : parser.query_names) names.append(nb::bytes(name.data(), name.size()));
    nb::dict result;
    result["values"] = handed_over(parser.values);
    result["columns"] = handed_over(parser.columns);
    result["row_begin"] = handed_over(parser.row_begin);
    result["labels"] = handed_over(parser.labels);
    result["query"] = handed_over(parser.query);
    result["query_names"] = names;
    result["comments"] = nb::bytes(parser.comments.data(), parser.comments.size());
    result["comment_ends"] = handed_over(parser.comment_ends);
    result["highest"] = parser.highest;
    result["highest_line"] = parser.highest_line;
    result["has_zero"] = parser.has_zero;
    return result;
}

template <class T>
void bind_parser(nb::module_& m, const char* name) {
    nb::class_<SvmlightParser<T>>(m, name)
        .def(
            "__init__",
            [](SvmlightParser<T>* self, bool with_features, bool with_comments, bool zero_allowed, bool split_allowed, int n_threads,
               std::size_t piece_bytes) {
                if (n_threads < 1 || piece_bytes < 1) throw nb::value_error("n_threads and piece_bytes must be positive");
                new (self) SvmlightParser<T>({with_features, with_comments, zero_allowed, split_allowed, n_threads, piece_bytes});
            },
            "with_features"_a, "with_comments"_a, "zero_allowed"_a, "split_allowed"_a, "n_threads"_a, "piece_bytes"_a)
        .def("feed", &feed<T>, "block"_a.noconvert())
        .def("finish", &finish<T>);
}

// Whether whole lines hold a sample, and the name of the query of the last one, None if it has none.
nb::tuple last_query_of(const InputVector<std::uint8_t>& lines) {
    const char* const begin = reinterpret_cast<const char*>(lines.data());
    const LineQuery found = last_query(begin, begin + lines.size());
    if (!found || !found->data()) return nb::make_tuple(found.has_value(), nb::none());
    return nb::make_tuple(true, nb::bytes(found->data(), found->size()));
}

// Place of the first sample of another query in whole lines; their length if there is none.
std::size_t next_query_of(const InputVector<std::uint8_t>& lines, std::optional<nb::bytes> known) {
    const std::string name = known ? std::string(known->c_str(), known->size()) : std::string();
    const char* const begin = reinterpret_cast<const char*>(lines.data());
    ScopedGilRelease unlocked;
    const std::string_view query = known ? std::string_view(name) : std::string_view();
    return static_cast<std::size_t>(next_query(begin, begin + lines.size(), query) - begin);
}

}  // namespace

void bind_svmlight(nb::module_& m) {
    const nb::object text_error = nb::exception<TextError>(m, "TextError", PyExc_ValueError);
    nb::exception<ZeroIndexError>(m, "ZeroIndexError", text_error);
    nb::exception<SplitQueryError>(m, "SplitQueryError", text_error);
    m.def("last_query", &last_query_of, "lines"_a.noconvert());
    m.def("next_query", &next_query_of, "lines"_a.noconvert(), "known"_a.none());
    bind_parser<double>(m, "SvmlightParser64");
    bind_parser<float>(m, "SvmlightParser32");
}
