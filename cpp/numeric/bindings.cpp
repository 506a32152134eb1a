// Python face of products with dense matrices, of the small quadratic problem, and of noise on scores.
#include "numeric/clones.hpp"
#include "numeric/normal.hpp"
#include "numeric/row_products.hpp"
#include "numeric/simplex_qp.hpp"
#include "python/arrays.hpp"

using maxmargin::numeric::SimplexQP;
using Doubles = InputVector<double>;

namespace {

// Of any layout in which rows or columns lie in one piece.
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;

template <class T>
maxmargin::numeric::DenseMatrix<T> dense(const Matrix<T>& X) {
    const maxmargin::numeric::DenseMatrix<T> matrix{X.data(), X.shape(0), X.shape(1), X.stride(0), X.stride(1)};
    // The stride of a single row or column may be any number.
    const bool rows = matrix.column_stride == 1 || matrix.n_columns <= 1, columns = matrix.row_stride == 1 || matrix.n_rows <= 1;
    require(rows || columns, "rows or columns of X must lie in one piece");
    if (rows) return {matrix.data, matrix.n_rows, matrix.n_columns, matrix.row_stride, 1};
    return {matrix.data, matrix.n_rows, matrix.n_columns, 1, matrix.column_stride};
}

// Numbers that are anything.
nb::ndarray<nb::numpy, double> recycled(std::size_t size) {
    bool cleared;
    return to_be_filled<double>(size, cleared).array;
}

using Accumulator = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Written to memory that is there already: fresh pages cost as much as reading a short X.
template <class T>
void times_vector(const Matrix<T>& X, const Doubles& weights, int n_threads, const Accumulator& out) {
    const auto matrix = dense(X);
    require(weights.size() == matrix.n_columns, "weights must have one entry for each column of X");
    require(out.size() == matrix.n_rows, "out must have one entry for each row of X");
    ScopedGilRelease unlocked;
    maxmargin::numeric::times_vector(matrix, weights.data(), n_threads, out.data());
}

template <class T>
nb::ndarray<nb::numpy, double> sum_of_rows(const Doubles& coefficients, const Matrix<T>& X, int n_threads) {
    const auto matrix = dense(X);
    require(coefficients.size() == matrix.n_rows, "coefficients must have one entry for each row of X");
    const auto out = zeros<double>({matrix.n_columns});
    ScopedGilRelease unlocked;
    maxmargin::numeric::sum_of_rows(matrix, coefficients.data(), n_threads, out.data);
    return out.array;
}

// The sum of rows, added to `total` in place.
template <class T>
void add_rows(const Doubles& coefficients, const Matrix<T>& X, int n_threads, const Accumulator& total) {
    const auto matrix = dense(X);
    require(coefficients.size() == matrix.n_rows, "coefficients must have one entry for each row of X");
    require(total.size() == matrix.n_columns, "total must have one entry for each column of X");
    ScopedGilRelease unlocked;
    maxmargin::numeric::add_rows(matrix, coefficients.data(), n_threads, total.data());
}

// The QP of cuts whose Gram matrix is made here, with twice the digits: multipliers, and the sum of the rows times these.
nb::tuple solve_precisely(const Input<double, nb::ndim<2>>& rows, const Doubles& linear, const InputVector<bool>& in_sum, const Doubles& start) {
    using maxmargin::numeric::DoubleDouble;
    const std::size_t m = rows.shape(0), d = rows.shape(1);
    require(m > 0 && linear.size() == m && in_sum.size() == m && start.size() == m, "linear, in_sum and start must have one entry for each row");
    require(in_sum.data()[0], "the first variable must be in the sum");
    const auto solution = zeros<double>({m}), total = zeros<double>({d});
    {
        ScopedGilRelease unlocked;
        maxmargin::numeric::BasicSimplexQP<DoubleDouble> qp(1.0);
        std::vector<DoubleDouble> products(m), from(m);
        for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 0; j <= i; ++j) {
                DoubleDouble sum;
                for (std::size_t k = 0; k < d; ++k) sum += DoubleDouble::product(rows.data()[i * d + k], rows.data()[j * d + k]);
                products[j] = sum;
            }
            qp.add(products.data(), linear.data()[i], in_sum.data()[i]);
            from[i] = start.data()[i];
        }
        qp.set_solution(from.data());
        qp.solve();
        for (std::size_t i = 0; i < m; ++i) solution.data[i] = qp.solution()[i].high;
        for (std::size_t k = 0; k < d; ++k) {
            DoubleDouble sum;
            for (std::size_t i = 0; i < m; ++i) sum += qp.solution()[i] * DoubleDouble(rows.data()[i * d + k]);
            total.data[k] = sum.high;
        }
    }
    return nb::make_tuple(solution.array, total.array);
}

}  // namespace

void bind_numeric(nb::module_& m) {
    m.def("recycled", &recycled, "size"_a, nb::rv_policy::automatic);
    m.def("times_vector", &times_vector<float>, "X"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a, "out"_a.noconvert());
    m.def("times_vector", &times_vector<double>, "X"_a.noconvert(), "weights"_a.noconvert(), "n_threads"_a, "out"_a.noconvert());
    m.def("sum_of_rows", &sum_of_rows<float>, "coefficients"_a.noconvert(), "X"_a.noconvert(), "n_threads"_a, nb::rv_policy::automatic);
    m.def("sum_of_rows", &sum_of_rows<double>, "coefficients"_a.noconvert(), "X"_a.noconvert(), "n_threads"_a, nb::rv_policy::automatic);
    m.def("add_rows", &add_rows<float>, "coefficients"_a.noconvert(), "X"_a.noconvert(), "n_threads"_a, "total"_a.noconvert());
    m.def("add_rows", &add_rows<double>, "coefficients"_a.noconvert(), "X"_a.noconvert(), "n_threads"_a, "total"_a.noconvert());
    m.def("cpu_capability", [] { return maxmargin::kUsesAvx2 ? "avx2" : "default"; });
    m.attr("ROWS_OF_BLOCK") = maxmargin::numeric::kBlock;
    m.def("solve_precisely", &solve_precisely, "rows"_a.noconvert(), "linear"_a.noconvert(), "in_sum"_a.noconvert(), "start"_a.noconvert());
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
        }, "products"_a.noconvert(), "linear"_a, "in_sum"_a = true)
        .def("set_linear", [](SimplexQP& qp, const Doubles& values) {
            if (values.size() != qp.size()) throw nb::value_error("values must have one entry for each variable");
            qp.set_linear(values.data());
        }, "values"_a.noconvert())
        .def("set_solution", [](SimplexQP& qp, const Doubles& values) {
            if (values.size() != qp.size()) throw nb::value_error("values must have one entry for each variable");
            qp.set_solution(values.data());
        }, "values"_a.noconvert())
        .def_prop_ro("factor", [](const SimplexQP& qp) {
            const std::size_t m = qp.factor_size();
            const auto support = zeros<std::int64_t>({m});
            const auto rows = zeros<double>({m, m});
            for (std::size_t i = 0; i < m; ++i) {
                support.data[i] = static_cast<std::int64_t>(qp.support(i));
                for (std::size_t j = 0; j <= i; ++j) rows.data[i * m + j] = qp.factor(i, j);
            }
            return nb::make_tuple(support.array, rows.array, m == 0 ? 0.0 : qp.shift());
        })
        .def("set_factor", [](SimplexQP& qp, const Int64s& support, const Input<double, nb::ndim<2>>& rows, double shift) {
            const std::size_t m = support.size();
            if (rows.shape(0) != m || rows.shape(1) != m) throw nb::value_error("rows must be a square with one row for each entry of support");
            std::vector<char> seen(qp.size(), 0);
            for (std::size_t k = 0; k < m; ++k) {
                const std::int64_t at = support.data()[k];
                if (at < 0 || at >= static_cast<std::int64_t>(qp.size()) || seen[static_cast<std::size_t>(at)]++) throw nb::value_error("support must be different variables");
                if (!(rows.data()[k * m + k] > 0)) throw nb::value_error("the diagonal of a factor must be positive");
            }
            qp.set_factor(support.data(), rows.data(), m, shift);
        }, "support"_a.noconvert(), "rows"_a.noconvert(), "shift"_a)
        .def("keep", [](SimplexQP& qp, const Int64s& kept) {
            std::int64_t last = -1;
            for (std::size_t k = 0; k < kept.size(); ++k) {
                if (kept.data()[k] <= last || kept.data()[k] >= static_cast<std::int64_t>(qp.size())) throw nb::value_error("kept must ascend within the variables");
                last = kept.data()[k];
            }
            qp.keep(kept.data(), kept.size());
        }, "kept"_a.noconvert())
        .def("solve", [](SimplexQP& qp) {
            ScopedGilRelease release;
            qp.solve();
        });
    m.def("with_noise", [](const Doubles& values, double deviation, std::uint64_t seed, std::uint64_t number) {
        // What noise was added to needs no more digits, and half the memory is twice as fast.
        const auto result = zeros<float>({values.size()});
        {
            ScopedGilRelease release;
            maxmargin::NormalStream noise(seed, number);
            for (std::size_t k = 0; k < values.size(); ++k) result.data[k] = static_cast<float>(values.data()[k] + deviation * noise.next());
        }
        return result.array;
    }, "values"_a.noconvert(), "deviation"_a, "seed"_a, "number"_a);
}
