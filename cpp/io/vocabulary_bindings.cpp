// Python face of the vocabulary: lists of rows of named features in, a sparse matrix out, in one pass over the objects.
//
// A row is a dictionary {name: value} or a list of names. Text as a value is an indicator of "name=value", a list of text one of
// each, a number is the value of the feature. The interpreter lock is held: everything that is read is a Python object.
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/vocabulary.hpp"
#include "python/arrays.hpp"

using maxmargin::data::Vocabulary;

namespace {

// Error of Python's own that is set already.
[[noreturn]] void pass_on() { throw nb::python_error(); }

std::string quoted(nb::handle object) {
    return nb::cast<std::string>(object_from([&] { return PyObject_Repr(object.ptr()); }));
}

// Rows and names may be objects of the user, whose methods are Python code. Nothing in it where Python has set an error.
template <class Call>
Reference new_reference(const Call& call) {
    return nb::steal(call_interpreter(call));
}

bool has_items(PyObject* object) {
    return call_interpreter([&] { return PyObject_HasAttrString(object, "items"); });
}

// A name for a message, which must be UTF-8: halves of surrogate pairs are written as such.
std::string shown(std::string_view name) {
    const Reference text = nb::steal(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogatepass"));
    if (!text.is_valid()) pass_on();
    const Reference bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
    if (!bytes.is_valid()) pass_on();
    return PyBytes_AsString(bytes.ptr());
}

class Encoder {
  public:
    Encoder(Vocabulary& vocabulary, bool growing, bool constant) : vocabulary_(vocabulary), growing_(growing), constant_(constant) {
        row_begin_.push_back(0);
        offsets_.push_back(0);
    }

    void block(nb::handle rows) {
        const Reference items = new_reference([&] { return PyObject_GetIter(rows.ptr()); });
        if (!items.is_valid()) {
            clear_error();
            throw nb::type_error(("is " + quoted(rows) + "; a list with the features of every place is needed").c_str());
        }
        while (true) {
            const Reference item = new_reference([&] { return PyIter_Next(items.ptr()); });
            if (!item.is_valid()) break;
            row(item);
        }
        if (PyErr_Occurred()) pass_on();
        offsets_.push_back(static_cast<std::int64_t>(row_begin_.size() - 1));
    }

    // Values, columns, where rows begin, where blocks begin; no values where all are 1. The constant is the last column.
    nb::tuple finish() {
        if (constant_) {
            const auto last = static_cast<std::int32_t>(vocabulary_.size());
            for (std::int32_t& c : columns_)
                if (c < 0) c = last;
        }
        columns_.shrink_to_fit();
        values_.shrink_to_fit();
        nb::object values = nb::none();
        if (!values_.empty()) values = nb::cast(array_of(std::move(values_)));
        return nb::make_tuple(values, array_of(std::move(columns_)), array_of(std::move(row_begin_)), array_of(std::move(offsets_)));
    }

  private:
    struct Entry {
        std::string_view name;
        std::uint64_t hash;
        double value;
    };
    struct Cell {
        std::uint32_t column;
        double value;
    };

    void row(nb::handle item) {
        entries_.clear();
        kept_.clear();
        used_ = 0;
        if (PyDict_Check(item.ptr())) {
            PyObject *key, *value;
            Py_ssize_t at = 0;
            while (PyDict_Next(item.ptr(), &at, &key, &value)) entry(key, value);
        } else if (PyMapping_Check(item.ptr()) && has_items(item.ptr())) {
            const Reference pairs = new_reference([&] { return PyMapping_Items(item.ptr()); });
            if (!pairs.is_valid()) pass_on();
            for (const nb::handle pair : pairs) {
                for (const Py_ssize_t k : {0, 1}) kept_.push_back(object_from([&] { return PySequence_GetItem(pair.ptr(), k); }));
                entry(kept_.end()[-2].ptr(), kept_.end()[-1].ptr());
            }
        } else {
            names(item);
        }
        place();
    }

    void names(nb::handle item) {
        if (PyUnicode_Check(item.ptr()))
            throw nb::type_error(("holds the text " + quoted(item) + " where the features of one place are needed; put it into a list").c_str());
        const Reference list = in_order(item.ptr());
        if (!list.is_valid()) {
            clear_error();
            throw nb::type_error(("holds " + quoted(item) + "; features are a dictionary {name: value} or a list of names").c_str());
        }
        while (true) {
            Reference name = new_reference([&] { return PyIter_Next(list.ptr()); });
            if (!name.is_valid()) break;
            if (!PyUnicode_Check(name.ptr()))
                throw nb::type_error(("holds " + quoted(name) + " in a list of names, which must be text").c_str());
            kept_.push_back(name);
            add(text(name.ptr()), 1.0);
        }
        if (PyErr_Occurred()) pass_on();
    }

    // An iterator. Sets of text have another order in every process, on which the columns would depend.
    static Reference in_order(PyObject* values) {
        if (!PyAnySet_Check(values)) return new_reference([&] { return PyObject_GetIter(values); });
        const Reference list = new_reference([&] { return PySequence_List(values); });
        // What cannot be put in order is not text, and is complained of when it is read.
        if (list.is_valid() && call_interpreter([&] { return PyList_Sort(list.ptr()); }) != 0) clear_error();
        return list.is_valid() ? new_reference([&] { return PyObject_GetIter(list.ptr()); }) : Reference();
    }

    void entry(PyObject* key, PyObject* value) {
        const std::string_view name = text(key);
        if (PyFloat_Check(value) || PyLong_Check(value)) return number(name, value);
        if (PyUnicode_Check(value)) return indicator(name, value);
        if (value == Py_None) throw nb::type_error(("has None for " + shown(name) + "; leave such features out").c_str());
        if (PyNumber_Check(value) && !PySequence_Check(value)) return number(name, value);
        if (PyMapping_Check(value) && has_items(value))
            throw nb::type_error(("has a dictionary for " + shown(name) + "; features are numbers, text, or lists of text").c_str());
        const Reference list = in_order(value);
        if (!list.is_valid()) {
            clear_error();
            // Scalars of NumPy and arrays without axes.
            return number(name, value);
        }
        while (true) {
            const Reference one = new_reference([&] { return PyIter_Next(list.ptr()); });
            if (!one.is_valid()) break;
            if (!PyUnicode_Check(one.ptr()))
                throw nb::type_error(("has " + quoted(one) + " in the list of " + shown(name) + "; lists are of text").c_str());
            indicator(name, one.ptr());
        }
        if (PyErr_Occurred()) pass_on();
    }

    void number(std::string_view name, PyObject* value) {
        const double x = PyFloat_Check(value) ? PyFloat_AsDouble(value) : as_double(value, name);
        add(name, x);
    }
    double as_double(PyObject* value, std::string_view name) {
        const double x = call_interpreter([&] { return PyFloat_AsDouble(value); });
        if (x == -1.0 && PyErr_Occurred()) {
            clear_error();
            throw nb::type_error(("has " + quoted(value) + " for " + shown(name) + "; features are numbers, text, or lists of text").c_str());
        }
        return x;
    }

    void indicator(std::string_view name, PyObject* value) {
        const std::string_view own = text(value);
        // Buffers of a row stay where they are until it ends.
        if (used_ == joined_.size()) joined_.emplace_back();
        std::vector<char>& buffer = *(joined_[used_] ? joined_[used_] : (joined_[used_] = std::make_unique<std::vector<char>>()));
        ++used_;
        buffer.resize(name.size() + 1 + own.size());
        std::memcpy(buffer.data(), name.data(), name.size());
        buffer[name.size()] = '=';
        std::memcpy(buffer.data() + name.size() + 1, own.data(), own.size());
        add({buffer.data(), buffer.size()}, 1.0);
    }

    void add(std::string_view name, double value) {
        const std::uint64_t hash = Vocabulary::hash(name);
        vocabulary_.prefetch(hash);
        entries_.push_back({name, hash, value});
    }

    // UTF-8, which plain text has at hand. What is no text, as a key, counts as what it prints.
    std::string_view text(PyObject* object) {
        if (!PyUnicode_Check(object)) {
            kept_.push_back(new_reference([&] { return PyObject_Str(object); }));
            if (!kept_.back().is_valid()) pass_on();
            object = kept_.back().ptr();
        }
        Py_ssize_t size;
        if (const char* bytes = PyUnicode_AsUTF8AndSize(object, &size)) return {bytes, static_cast<std::size_t>(size)};
        // Half of a surrogate pair, as files read with errors="surrogateescape" have.
        clear_error();
        kept_.push_back(nb::steal(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass")));
        if (!kept_.back().is_valid()) pass_on();
        char* bytes;
        if (PyBytes_AsStringAndSize(kept_.back().ptr(), &bytes, &size) != 0) pass_on();
        return {bytes, static_cast<std::size_t>(size)};
    }

    // The row behind those before: columns rise, and what is named twice is added up.
    void place() {
        cells_.clear();
        for (const Entry& e : entries_) {
            const std::uint32_t column = growing_ ? vocabulary_.insert(e.name, e.hash) : vocabulary_.find(e.name, e.hash);
            if (column != Vocabulary::kNone && e.value != 0) cells_.push_back({column, e.value});
        }
        // Few entries, of which many are in order: insertion.
        for (std::size_t a = 1; a < cells_.size(); ++a) {
            const Cell cell = cells_[a];
            std::size_t b = a;
            for (; b > 0 && cells_[b - 1].column > cell.column; --b) cells_[b] = cells_[b - 1];
            cells_[b] = cell;
        }
        std::size_t to = 0;
        for (std::size_t a = 0; a < cells_.size(); ++a) {
            if (to && cells_[to - 1].column == cells_[a].column) cells_[to - 1].value += cells_[a].value;
            else cells_[to++] = cells_[a];
        }
        for (std::size_t a = 0; a < to; ++a) put(static_cast<std::int32_t>(cells_[a].column), cells_[a].value);
        if (constant_) put(-1, 1.0);
        row_begin_.push_back(static_cast<std::int64_t>(columns_.size()));
    }
    void put(std::int32_t column, double value) {
        // Indicators need no values; the first other number brings them into being.
        if (values_.empty() && value != 1.0) {
            values_.reserve(columns_.capacity());
            values_.assign(columns_.size(), 1.0);
        }
        columns_.push_back(column);
        if (!values_.empty() || value != 1.0) values_.push_back(value);
    }

    Vocabulary& vocabulary_;
    const bool growing_, constant_;
    std::vector<std::int32_t> columns_;
    std::vector<double> values_;
    std::vector<std::int64_t> row_begin_, offsets_;
    // Of one row.
    std::vector<Entry> entries_;
    std::vector<Cell> cells_;
    std::vector<Reference> kept_;
    std::vector<std::unique_ptr<std::vector<char>>> joined_;
    std::size_t used_ = 0;
};

// Rows of all blocks; an error says which block it is about.
nb::tuple encode(Vocabulary& vocabulary, nb::handle blocks, bool growing, bool constant) {
    Encoder encoder(vocabulary, growing, constant);
    const Reference items = new_reference([&] { return PyObject_GetIter(blocks.ptr()); });
    if (!items.is_valid()) pass_on();
    std::size_t k = 0;
    while (true) {
        const Reference block = new_reference([&] { return PyIter_Next(items.ptr()); });
        if (!block.is_valid()) break;
        try {
            encoder.block(block);
        } catch (const nb::builtin_exception& error) {
            throw nb::type_error((std::to_string(k) + " " + error.what()).c_str());
        }
        ++k;
    }
    if (PyErr_Occurred()) pass_on();
    return encoder.finish();
}

nb::object text_of(std::string_view name) {
    const Reference text = nb::steal(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogatepass"));
    if (!text.is_valid()) pass_on();
    return text;
}

}  // namespace

void bind_vocabulary(nb::module_& m) {
    nb::class_<Vocabulary>(m, "Vocabulary")
        .def(nb::init<>())
        .def("__len__", &Vocabulary::size)
        .def("add", [](Vocabulary& self, nb::str name) {
            Py_ssize_t size;
            const char* bytes = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
            Reference kept;
            if (!bytes) {
                clear_error();
                kept = nb::steal(PyUnicode_AsEncodedString(name.ptr(), "utf-8", "surrogatepass"));
                char* own;
                if (!kept.is_valid() || PyBytes_AsStringAndSize(kept.ptr(), &own, &size) != 0) pass_on();
                bytes = own;
            }
            const std::string_view text{bytes, static_cast<std::size_t>(size)};
            return self.insert(text, Vocabulary::hash(text));
        }, "name"_a)
        .def("names", [](const Vocabulary& self) {
            nb::list names;
            for (std::size_t k = 0; k < self.size(); ++k) names.append(text_of(self.name(k)));
            return names;
        })
        .def("encode", &encode, "blocks"_a, "growing"_a, "constant"_a);
}
