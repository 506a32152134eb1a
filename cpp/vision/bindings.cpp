// Python face of kernels for images: arrays in, arrays out, interpreter lock released.
#include "python/arrays.hpp"
#include "vision/mean_shift.hpp"

using maxmargin::pictures::MeanShift;

namespace {

nb::ndarray<nb::numpy, double> modes(Input<double, nb::shape<-1, -1, 3>> colours, std::int64_t first_row, std::int64_t end_row, double radius, double colour_radius) {
    const auto height = static_cast<std::int64_t>(colours.shape(0)), width = static_cast<std::int64_t>(colours.shape(1));
    require(0 <= first_row && first_row <= end_row && end_row <= height, "rows must be those of the image");
    require(radius > 0 && radius < 1e6 && colour_radius > 0, "radius and colour_radius must be positive");
    const auto found = zeros<double>({static_cast<std::size_t>(end_row - first_row), colours.shape(1), 5});
    {
        ScopedGilRelease unlocked;
        MeanShift{colours.data(), height, width, radius, colour_radius}.modes(first_row, end_row, found.data);
    }
    return found.array;
}

}  // namespace

void bind_vision(nb::module_& m) {
    m.def("mean_shift", &modes, "colours"_a.noconvert(), "first_row"_a, "end_row"_a, "radius"_a, "colour_radius"_a);
}
