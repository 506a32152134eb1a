// Python face of the small quadratic problem, and of noise on scores.
#include "bindings/arrays.hpp"
#include "numeric/normal.hpp"
#include "numeric/simplex_qp.hpp"

using maxmargin::numeric::SimplexQP;
using Doubles = InputVector<double>;

void bind_numeric(nb::module_& m) {
    nb::class_<SimplexQP>(m, "SimplexQP")
        .def(nb::init<double>(), "total"_a)
        .def(nb::init<const SimplexQP&>(), "other"_a)
        .def("__len__", &SimplexQP::size)
        .def_prop_ro("total", &SimplexQP::total)
        .def_prop_ro("linear", [](const SimplexQP& qp) { return array_of(qp.linear()); }, nb::rv_policy::automatic)
        .def_prop_ro("solution", [](const SimplexQP& qp) { return array_of(qp.solution()); }, nb::rv_policy::automatic)
        .def_prop_ro("in_sum", [](const SimplexQP& qp) { return array_of(std::vector<double>(qp.in_sum().begin(), qp.in_sum().end())); }, nb::rv_policy::automatic)
        .def_prop_ro("value", &SimplexQP::value)
        .def_prop_ro("gram", [](const SimplexQP& qp) {
            auto output = zeros<double>({qp.size(), qp.size()});
            for (std::size_t i = 0; i < qp.size(); ++i)
                for (std::size_t j = 0; j < qp.size(); ++j) output.data[i * qp.size() + j] = qp.gram(i, j);
            return output.array;
        }, nb::rv_policy::automatic)
        .def("add", [](SimplexQP& qp, const Doubles& products, double linear, bool in_sum) {
            if (products.size() != qp.size() + 1) throw nb::value_error("products must have one entry for each variable and for the new one");
            if (qp.size() == 0 && !in_sum) throw nb::value_error("the first variable must be in the sum");
            qp.add(products.data(), linear, in_sum);
        }, "products"_a, "linear"_a, "in_sum"_a = true)
        .def("set_linear", [](SimplexQP& qp, const Doubles& values) {
            if (values.size() != qp.size()) throw nb::value_error("values must have one entry for each variable");
            qp.set_linear(values.data());
        }, "values"_a)
        .def("set_solution", [](SimplexQP& qp, const Doubles& values) {
            if (values.size() != qp.size()) throw nb::value_error("values must have one entry for each variable");
            qp.set_solution(values.data());
        }, "values"_a)
        .def("keep", [](SimplexQP& qp, const Int64s& kept) {
            std::int64_t last = -1;
            for (std::size_t k = 0; k < kept.size(); ++k) {
                if (kept.data()[k] <= last || kept.data()[k] >= static_cast<std::int64_t>(qp.size())) throw nb::value_error("kept must ascend within the variables");
                last = kept.data()[k];
            }
            qp.keep(kept.data(), kept.size());
        }, "kept"_a)
        .def("solve", [](SimplexQP& qp) {
            nb::gil_scoped_release release;
            qp.solve();
        });
    m.def("with_noise", [](const Doubles& values, double deviation, std::uint64_t seed, std::uint64_t number) {
        // What noise was added to needs no more digits, and half the memory is twice as fast.
        const auto result = zeros<float>({values.size()});
        {
            nb::gil_scoped_release release;
            maxmargin::NormalStream noise(seed, number);
            for (std::size_t k = 0; k < values.size(); ++k) result.data[k] = static_cast<float>(values.data()[k] + deviation * noise.next());
        }
        return result.array;
    }, "values"_a.noconvert(), "deviation"_a, "seed"_a, "number"_a);
}
