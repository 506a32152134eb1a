// svmlight/LETOR text to compressed sparse rows: `label [qid:query] index:value ... [# comment]`, one sample per line.
//
// The text comes in blocks of any size. A block is cut at line ends into pieces, threads parse the pieces into memory of
// their own, and the pieces are appended to the result in the order of the file. So the result, and which error is
// reported, do not depend on the blocks or the number of threads, and memory beyond the result is that of one block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/decimal.hpp"
#include "numeric/threads.hpp"

namespace maxmargin::data {

struct SvmlightOptions {
    bool with_features = true;   // false: only labels and queries, the rest of the line is passed over
    bool with_comments = false;  // keep what follows '#'
    bool zero_allowed = true;    // is 0 a feature index?
    bool split_allowed = false;  // may a query appear again after another one?
    int n_threads = 1;
    std::size_t piece_bytes = std::size_t{1} << 20;
};

class TextError : public std::runtime_error {
  public:
    TextError(std::int64_t line, const std::string& message) : std::runtime_error("line " + std::to_string(line) + ": " + message) {}
};

// What an option of the reader would mend; its callers know what they call it.
struct ZeroIndexError : TextError {
    using TextError::TextError;
};
struct SplitQueryError : TextError {
    using TextError::TextError;
};

// An array that grows by realloc, which on Linux moves pages instead of copying them; untouched pages cost nothing.
template <class T>
class Growing {
  public:
    Growing() = default;
    Growing(const Growing&) = delete;
    Growing& operator=(const Growing&) = delete;
    ~Growing() { std::free(data_); }

    T* data() { return data_; }
    std::size_t size() const { return size_; }

    void resize(std::size_t size) {
        if (size > capacity_) reallocate(std::max(size, capacity_ + capacity_ / 2));
        size_ = size;
    }

    // The memory, cut to size; from now on the caller's to free.
    T* release() {
        reallocate(std::max<std::size_t>(1, size_));
        capacity_ = 0;
        return std::exchange(data_, nullptr);
    }

  private:
    void reallocate(std::size_t capacity) {
        if (capacity > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
        void* memory = std::realloc(data_, capacity * sizeof(T));
        if (!memory) throw std::bad_alloc();
        data_ = static_cast<T*>(memory);
        capacity_ = capacity;
    }

    T* data_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

// Rows of one query that follow each other; a name without data stands for lines without a query.
struct QueryRun {
    std::size_t first_row;
    std::int64_t line;  // counted within the piece, from 0
    std::string_view name;
};

// Whole lines, and what they say.
template <class T>
struct Piece {
    const char* begin = nullptr;
    const char* end = nullptr;

    std::vector<T> values;  // only the first n_entries count
    std::vector<std::int32_t> columns;
    std::size_t n_entries = 0;
    std::vector<std::size_t> row_ends;
    std::vector<double> labels;
    std::vector<QueryRun> runs;
    std::string comments;
    std::vector<std::size_t> comment_ends;
    std::int64_t highest = -1, highest_line = 0;  // the largest feature index and where it first stands
    bool has_zero = false;
    std::int64_t n_lines = 0;
    std::string error;  // of line n_lines, where parsing stopped
    bool zero_index = false;  // is it the index 0?

    // As new, but for the memory of the entries.
    void clear() {
        Piece fresh;
        fresh.values.swap(values);
        fresh.columns.swap(columns);
        *this = std::move(fresh);
    }
};

// Parses the lines of one piece, up to the first that is wrong.
template <class T>
class PieceParser {
  public:
    PieceParser(Piece<T>& piece, const SvmlightOptions& options) : out_(piece), options_(options) {}

    void run() {
        for (const char* p = out_.begin; p != out_.end;) {
            const char* const newline = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(out_.end - p)));
            begin_ = p;
            // The byte at end_ is '\r' or '\n', so that scanning digits needs no look at the length.
            end_ = newline > p && newline[-1] == '\r' ? newline - 1 : newline;
            if (!line()) {
                if (std::memchr(begin_, '\r', static_cast<std::size_t>(end_ - begin_)))
                    out_.error = "a carriage return inside the line; save the file with line ends \\n or \\r\\n";
                return;
            }
            ++out_.n_lines;
            p = newline + 1;
        }
    }

  private:
    static bool is_blank(char c) { return c == ' ' || c == '\t'; }
    bool at_end_of_field(const char* p) const { return p == end_ || is_blank(*p) || *p == '#'; }
    const char* skip_blanks(const char* p) const {
        while (is_blank(*p)) ++p;
        return p;
    }

    bool fail(std::string message) {
        out_.error = std::move(message);
        return false;
    }

    // The field at p for a message: printable, and not longer than a line of a terminal.
    std::string quoted(const char* p) const {
        std::string text = "'";
        for (int length = 0; p != end_ && !is_blank(*p); ++p) {
            if (++length > 40) {
                text += "...";
                break;
            }
            const auto byte = static_cast<unsigned char>(*p);
            if (byte >= 0x20 && byte < 0x7f) {
                text += *p;
            } else {
                constexpr char digits[] = "0123456789abcdef";
                text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
            }
        }
        return text + "'";
    }

    bool fail_number(const std::string& what, const char* field, Parsed outcome, const std::string& remedy) {
        const std::string text = what + " " + quoted(field);
        if (outcome == Parsed::too_large) return fail(text + " is too large for the floating-point type");
        const char* p = field + (*field == '-' || *field == '+');
        const auto starts = [&](const char* word) {
            for (int k = 0; k < 3; ++k)
                if ((p[k] | 0x20) != word[k]) return false;
            return true;
        };
        if (end_ - p >= 3 && (starts("nan") || starts("inf")))
            return fail(text + " is not finite; leave out or impute what is missing before writing the file");
        return fail(text + " is not a number; " + remedy);
    }

    bool line() {
        const char* p = skip_blanks(begin_);
        if (p == end_) return true;
        if (*p == '#') return !std::memchr(p, '\r', static_cast<std::size_t>(end_ - p));
        const char* const field = p;
        double label;
        Parsed outcome = parse_decimal(p, label);
        if (outcome == Parsed::number && !at_end_of_field(p)) outcome = Parsed::not_a_number;
        if (outcome != Parsed::number)
            return fail_number("label", field, outcome,
                               "a line looks like '2 qid:7 1:0.5 3:2 # comment'. Remove a header, if this is one; tables are "
                               "read by load_table, or under names in .csv, .tsv or .parquet");
        p = skip_blanks(p);
        std::string_view query;
        if (!parse_query(p, query)) return false;
        if (!(options_.with_features ? features(p) : pass_over(p))) return false;
        if (!finish_comment(p)) return false;
        finish_row(label, query);
        return true;
    }

    bool parse_query(const char*& p, std::string_view& query) {
        if (end_ - p < 4 || std::memcmp(p, "qid:", 4) != 0) return true;
        const char* const name = p + 4;
        for (p = name; !at_end_of_field(p);) ++p;
        if (p == name) return fail("'qid:' without a query; write for example qid:7");
        query = {name, static_cast<std::size_t>(p - name)};
        if (std::memchr(name, '\r', query.size())) return false;  // reported by run()
        p = skip_blanks(p);
        return true;
    }

    bool features(const char*& p) {
        // 'i:v ' takes four bytes at least, so this is room for the whole line.
        const std::size_t room = out_.n_entries + static_cast<std::size_t>(end_ - p) / 4 + 1;
        if (room > out_.values.size()) {
            out_.values.resize(room + room / 2);
            out_.columns.resize(room + room / 2);
        }
        T* value = out_.values.data() + out_.n_entries;
        std::int32_t* column = out_.columns.data() + out_.n_entries;
        std::int64_t previous = -1;
        for (; p != end_ && *p != '#'; p = skip_blanks(p)) {
            const char* const field = p;
            std::int64_t index = 0;
            while (is_digit(*p) && p - field < 18) index = 10 * index + (*p++ - '0');
            if (p == field || *p != ':') return bad_index(field);
            if (index > std::numeric_limits<std::int32_t>::max())
                return fail("feature index " + quoted(field) + " is larger than 2147483647; number the features from 1");
            if (index <= previous) return bad_order(index, previous);
            if (index == 0 && !options_.zero_allowed) {
                out_.zero_index = true;
                return fail("feature index 0");
            }
            previous = index;
            const char* const number = ++p;
            Parsed outcome = parse_decimal(p, *value);
            if (outcome == Parsed::number && !at_end_of_field(p)) outcome = Parsed::not_a_number;
            if (outcome != Parsed::number)
                return fail_number("value of feature " + std::to_string(index), number, outcome, "write features as index:value");
            *column = static_cast<std::int32_t>(index);
            if (index == 0) out_.has_zero = true;
            ++value;
            ++column;
        }
        if (previous > out_.highest) {
            out_.highest = previous;
            out_.highest_line = out_.n_lines;
        }
        out_.n_entries = static_cast<std::size_t>(value - out_.values.data());
        return true;
    }

    bool bad_index(const char* field) {
        if (end_ - field >= 4 && std::memcmp(field, "qid:", 4) == 0)
            return fail(quoted(field) + " is not in its place; write one query right after the label, as in '2 qid:7 1:0.5'");
        if (*field == '-' && is_digit(field[1])) return fail("feature index " + quoted(field) + " is negative; number the features from 1");
        if (is_digit(*field)) {
            const char* p = field;
            while (is_digit(*p)) ++p;
            if (*p == ':') return fail("feature index " + quoted(field) + " is larger than 2147483647; number the features from 1");
        }
        return fail("feature " + quoted(field) + " is not of the form index:value with a whole number as index");
    }

    bool bad_order(std::int64_t index, std::int64_t previous) {
        if (index == previous) return fail("feature index " + std::to_string(index) + " occurs twice; keep one of them");
        return fail("feature index " + std::to_string(index) + " follows " + std::to_string(previous) +
                    "; sort the features of every line by index, each at most once");
    }

    bool pass_over(const char*& p) {
        const auto length = static_cast<std::size_t>(end_ - p);
        if (std::memchr(p, '\r', length)) return false;
        const void* hash = std::memchr(p, '#', length);
        p = hash ? static_cast<const char*>(hash) : end_;
        return true;
    }

    bool finish_comment(const char* p) {
        if (p != end_) {
            ++p;
            if (std::memchr(p, '\r', static_cast<std::size_t>(end_ - p))) return false;
        }
        if (!options_.with_comments) return true;
        const char* last = end_;
        p = skip_blanks(p);
        while (last > p && is_blank(last[-1])) --last;
        if (last > p) out_.comments.append(p, last);
        out_.comment_ends.push_back(out_.comments.size());
        return true;
    }

    void finish_row(double label, std::string_view query) {
        std::vector<QueryRun>& runs = out_.runs;
        if (runs.empty() || (runs.back().name.data() == nullptr) != (query.data() == nullptr) || runs.back().name != query)
            runs.push_back({out_.labels.size(), out_.n_lines, query});
        out_.labels.push_back(label);
        out_.row_ends.push_back(out_.n_entries);
    }

    Piece<T>& out_;
    const SvmlightOptions& options_;
    const char* begin_ = nullptr;
    const char* end_ = nullptr;
};

template <class T>
class SvmlightParser {
  public:
    explicit SvmlightParser(const SvmlightOptions& options) : options_(options) {
        row_begin.resize(1);
        row_begin.data()[0] = 0;
    }

    // The next bytes of the file.
    void feed(const char* data, std::size_t size) {
        if (finished_) throw std::logic_error("the parser has finished");
        const char* const end = data + size;
        if (!rest_.empty()) {
            const void* newline = std::memchr(data, '\n', size);
            const char* const stop = newline ? static_cast<const char*>(newline) + 1 : end;
            rest_.append(data, stop);
            if (!newline) return;
            parse(rest_.data(), rest_.data() + rest_.size());
            rest_.clear();
            data = stop;
        }
        const char* stop = end;
        while (stop != data && stop[-1] != '\n') --stop;
        parse(data, stop);
        rest_.assign(stop, end);
    }

    // To be called after the last bytes; the last line need not have an end.
    void finish() {
        if (std::exchange(finished_, true)) throw std::logic_error("the parser has finished");
        if (rest_.empty()) return;
        rest_ += '\n';
        parse(rest_.data(), rest_.data() + rest_.size());
        rest_.clear();
    }

    Growing<T> values;
    Growing<std::int32_t> columns;  // as in the file
    Growing<std::int64_t> row_begin;
    Growing<double> labels;
    Growing<std::int64_t> query;     // per row, a place in query_names; empty if there are no queries
    std::deque<std::string> query_names;
    std::string comments;            // one after the other
    Growing<std::int64_t> comment_ends;
    std::int64_t highest = -1, highest_line = 0;
    bool has_zero = false;

  private:
    // Lines in full, among the threads.
    void parse(const char* begin, const char* end) {
        if (begin == end) return;
        if (n_lines_ == 0 && end - begin >= 3 && std::memcmp(begin, "\xef\xbb\xbf", 3) == 0) begin += 3;  // byte order mark
        std::size_t count = 0;
        while (begin != end) {
            if (count == pieces_.size()) pieces_.emplace_back();
            Piece<T>& piece = pieces_[count++];
            piece.clear();
            piece.begin = begin;
            const auto left = static_cast<std::size_t>(end - begin);
            if (left <= options_.piece_bytes) {
                begin = end;
            } else {
                const char* const from = begin + options_.piece_bytes - 1;
                begin = static_cast<const char*>(std::memchr(from, '\n', static_cast<std::size_t>(end - from))) + 1;
            }
            piece.end = begin;
        }
        share_out(options_.n_threads, count, [&](std::size_t k) { PieceParser<T>(pieces_[k], options_).run(); });
        append(count);
    }

    void append(std::size_t count) {
        std::vector<std::size_t> first_row(count + 1, labels.size()), first_entry(count + 1, values.size());
        for (std::size_t k = 0; k < count; ++k) {
            first_row[k + 1] = first_row[k] + pieces_[k].labels.size();
            first_entry[k + 1] = first_entry[k] + pieces_[k].n_entries;
        }
        for (std::size_t k = 0; k < count; ++k) {
            Piece<T>& piece = pieces_[k];
            take_queries(piece, first_row[k], first_row[k + 1]);
            if (piece.zero_index) throw ZeroIndexError(n_lines_ + piece.n_lines + 1, piece.error);
            if (!piece.error.empty()) throw TextError(n_lines_ + piece.n_lines + 1, piece.error);
            if (piece.highest > highest) {
                highest = piece.highest;
                highest_line = n_lines_ + piece.highest_line + 1;
            }
            has_zero = has_zero || piece.has_zero;
            n_lines_ += piece.n_lines;
            for (const std::size_t stop : piece.comment_ends) {
                comment_ends.resize(comment_ends.size() + 1);
                comment_ends.data()[comment_ends.size() - 1] = static_cast<std::int64_t>(comments.size() + stop);
            }
            comments += piece.comments;
        }
        labels.resize(first_row[count]);
        row_begin.resize(first_row[count] + 1);
        values.resize(first_entry[count]);
        columns.resize(first_entry[count]);
        share_out(options_.n_threads, count, [&](std::size_t k) {
            const Piece<T>& piece = pieces_[k];
            std::copy_n(piece.values.data(), piece.n_entries, values.data() + first_entry[k]);
            std::copy_n(piece.columns.data(), piece.n_entries, columns.data() + first_entry[k]);
            std::copy(piece.labels.begin(), piece.labels.end(), labels.data() + first_row[k]);
            std::int64_t* const ends = row_begin.data() + first_row[k] + 1;
            for (std::size_t r = 0; r < piece.row_ends.size(); ++r) ends[r] = static_cast<std::int64_t>(first_entry[k] + piece.row_ends[r]);
        });
    }

    void take_queries(const Piece<T>& piece, std::size_t first_row, std::size_t last_row) {
        for (std::size_t r = 0; r < piece.runs.size(); ++r) {
            const QueryRun& run = piece.runs[r];
            const std::int64_t line = n_lines_ + run.line + 1;
            const bool named = run.name.data() != nullptr;
            if (first_row == 0 && r == 0) with_queries_ = named;
            if (named != with_queries_)
                throw TextError(line, "some lines have a qid and some have not; give every line one, or none");
            if (!named) continue;
            const std::size_t from = first_row + run.first_row;
            const std::size_t to = r + 1 < piece.runs.size() ? first_row + piece.runs[r + 1].first_row : last_row;
            query.resize(to);
            std::fill(query.data() + from, query.data() + to, number_of(run.name, from, line));
        }
    }

    std::int64_t number_of(std::string_view name, std::size_t row, std::int64_t line) {
        if (row > 0) {
            const std::int64_t before = query.data()[row - 1];
            if (query_names[static_cast<std::size_t>(before)] == name) return before;
        }
        const auto known = query_numbers_.find(name);
        if (known == query_numbers_.end()) {
            query_names.emplace_back(name);
            return query_numbers_[query_names.back()] = static_cast<std::int64_t>(query_names.size()) - 1;
        }
        if (!options_.split_allowed) throw SplitQueryError(line, "the query has appeared before, with others in between");
        return known->second;
    }

    SvmlightOptions options_;
    std::vector<Piece<T>> pieces_;  // kept for their memory
    std::string rest_;              // a line whose end has not come yet
    std::unordered_map<std::string_view, std::int64_t> query_numbers_;  // of query_names, which never move
    std::int64_t n_lines_ = 0;
    bool with_queries_ = false, finished_ = false;
};

}  // namespace maxmargin::data
