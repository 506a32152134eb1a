// Python face of the searches for slack rescaling: the oracle is Python's, and its answers come back as they were.
#include <nanobind/stl/optional.h>

#include <optional>
#include <vector>

#include "python/arrays.hpp"
#include "surrogates/product_search.hpp"

using namespace maxmargin::surrogates;

namespace {

// Candidates (h, g, key, output) that a search has met, and the oracle that it asks.
class Plane {
  public:
    explicit Plane(nb::object ask) : ask_(std::move(ask)) {}

    PlanePoint point(nb::handle candidate) {
        const double h = python_number(item(candidate, 0)), g = python_number(item(candidate, 1));
        const nb::handle key = item(candidate, 2);
        // Keys are the user's: comparing them may run Python code.
        PyObject* place = call_interpreter([&] { return PyDict_GetItemWithError(keys_.ptr(), key.ptr()); });
        if (!place && PyErr_Occurred()) throw nb::python_error();
        std::size_t number_of = static_cast<std::size_t>(PyDict_Size(keys_.ptr()));
        if (place) number_of = PyLong_AsSize_t(place);
        else add_key(key, number_of);
        objects_.push_back(nb::borrow(candidate));
        return {h, g, number_of, objects_.size() - 1};
    }
    std::vector<PlanePoint> points(const nb::sequence& candidates) {
        std::vector<PlanePoint> found;
        for (const nb::handle candidate : candidates) found.push_back(point(candidate));
        return found;
    }

    PlaneAnswer operator()(double a, double b) {
        const Reference answer = call_python(ask_, a, b);
        const nb::handle found = item(answer, 0);
        const double upper = python_number(item(answer, 1));
        if (found.is_none()) return {false, {}, upper};
        return {true, point(found), upper};
    }

    nb::object object(const PlanePoint& point) const { return objects_[point.object]; }
    template <class Points>
    nb::list list(const Points& points) const {
        nb::list found;
        for (std::size_t k = 0; k < points.size(); ++k) found.append(objects_[points[k].object]);
        return found;
    }
    // (a, b, candidate, upper, no cone)
    nb::list list(const std::vector<PlaneStep>& trace) const {
        nb::list found;
        for (const auto& [a, b, answer] : trace)
            found.append(nb::make_tuple(a, b, answer.found ? object(answer.point) : nb::none(), answer.upper, nb::none()));
        return found;
    }

  private:
    void add_key(nb::handle key, std::size_t number) {
        const nb::object value = nb::cast(number);
        if (call_interpreter([&] { return PyDict_SetItem(keys_.ptr(), key.ptr(), value.ptr()); }) != 0) throw nb::python_error();
    }
    static nb::handle item(nb::handle of, Py_ssize_t k) {
        // A borrowed reference, of a tuple that stays as long as it is looked at.
        if (!PyTuple_Check(of.ptr()) || PyTuple_Size(of.ptr()) <= k)
            throw nb::type_error("ask must return an Answer, and what it found and what is known must be Candidates");
        return PyTuple_GetItem(of.ptr(), k);
    }

    Reference ask_, keys_{nb::dict()};
    std::vector<Reference> objects_;
};

nb::tuple hull(nb::object ask, nb::object truth, const nb::sequence& known, bool with_truth, const std::optional<InputVector<double>>& losses,
               std::optional<double> first, double enough, std::size_t max_calls, double tolerance) {
    Plane plane(std::move(ask));
    const PlanePoint own = plane.point(truth);
    std::vector<PlanePoint> start = plane.points(known);
    if (with_truth) start.insert(start.begin(), own);
    std::optional<ProductCeiling> ceiling;
    if (losses) ceiling.emplace(std::vector<double>(losses->data(), losses->data() + losses->size()));
    HullOptions options;
    options.first = first ? &*first : nullptr, options.enough = enough, options.max_calls = max_calls, options.tolerance = tolerance;
    const auto question = [&](double a, double b) { return plane(a, b); };
    const HullFound found = ProductHullSearch(own, start, ceiling ? &*ceiling : nullptr, options, question).run();
    return nb::make_tuple(plane.list(found.labels), found.place, found.value, plane.object(found.incumbent), found.best, found.upper, found.open,
                          plane.list(found.trace), plane.list(found.hull));
}

nb::tuple bisect(nb::object ask, nb::object truth, const nb::sequence& known, std::optional<double> start, double tolerance, std::size_t max_calls) {
    Plane plane(std::move(ask));
    const PlanePoint own = plane.point(truth);
    const std::vector<PlanePoint> points = plane.points(known);
    const auto question = [&](double a, double b) { return plane(a, b); };
    const BisectFound found = bisect_product(own, points, start ? &*start : nullptr, tolerance, max_calls, question);
    return nb::make_tuple(plane.object(found.incumbent), found.best, found.upper, plane.list(found.trace), plane.list(found.seen));
}

}  // namespace

void bind_surrogates(nb::module_& m) {
    m.def("product_hull_search", &hull, "ask"_a, "truth"_a, "known"_a, "with_truth"_a, "losses"_a.noconvert().none(), "first"_a.none(), "enough"_a,
          "max_calls"_a, "tolerance"_a);
    m.def("product_bisecting", &bisect, "ask"_a, "truth"_a, "known"_a, "start"_a.none(), "tolerance"_a, "max_calls"_a);
}
