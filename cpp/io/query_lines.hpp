// Where queries begin in a svmlight/LETOR text, told from the first two fields of its lines: for readers of a part of a file, which
// must not cut a query in two. What is wrong with a line is for the parser to say.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace maxmargin::data {

// What a line says about queries: nothing if it holds no sample; a name without data if the sample has no query.
using LineQuery = std::optional<std::string_view>;

// The line [p, end), without its end. As `PieceParser` reads it.
inline LineQuery query_of_line(const char* p, const char* end) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    const auto in_field = [&](const char* q) { return q != end && !is_blank(*q) && *q != '#'; };
    if (end != p && end[-1] == '\r') --end;
    while (p != end && is_blank(*p)) ++p;
    if (p == end || *p == '#') return std::nullopt;
    while (in_field(p)) ++p;
    while (p != end && is_blank(*p)) ++p;
    if (end - p < 4 || std::memcmp(p, "qid:", 4) != 0) return std::string_view();
    const char* const name = p += 4;
    while (in_field(p)) ++p;
    return std::string_view(name, static_cast<std::size_t>(p - name));
}

inline bool same_query(std::string_view a, std::string_view b) { return (a.data() == nullptr) == (b.data() == nullptr) && a == b; }

// Calls visit(first byte of the line, its query) for every sample of whole lines, until it returns false; the last line need have
// no end.
template <class Visit>
void for_samples(const char* begin, const char* end, const Visit& visit) {
    for (const char* p = begin; p != end;) {
        const void* const newline = std::memchr(p, '\n', static_cast<std::size_t>(end - p));
        const char* const stop = newline ? static_cast<const char*>(newline) : end;
        if (const LineQuery query = query_of_line(p, stop); query && !visit(p, *query)) return;
        p = newline ? stop + 1 : end;
    }
}

// The query of the last sample.
inline LineQuery last_query(const char* begin, const char* end) {
    LineQuery found;
    for_samples(begin, end, [&](const char*, std::string_view query) {
        found = query;
        return true;
    });
    return found;
}

// The first sample of another query than `known`; `end` if there is none.
inline const char* next_query(const char* begin, const char* end, std::string_view known) {
    const char* found = end;
    for_samples(begin, end, [&](const char* line, std::string_view query) {
        if (same_query(query, known)) return true;
        found = line;
        return false;
    });
    return found;
}

}  // namespace maxmargin::data
