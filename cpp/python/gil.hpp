// The interpreter's lock (GIL): released and taken again in a process that may end meanwhile, and calls into Python from C++.
//
// A thread that asks for the lock after the interpreter has begun to end does not get it. Python up to 3.13 stops such a thread by
// pthread_exit, which unwinds its stack like an exception: it aborts the process where it meets a noexcept function (every
// destructor) or a catch (...) that does not throw on, and elsewhere runs destructors of Python objects without the lock. Python
// 3.14 lets the thread sleep until the process ends; the functions below do the same for all versions.
//
// Invariant: every function of Python's C API that may run Python code, or that may wait for the lock, is called through
// `call_interpreter` wherever a frame of C++ with a destructor lies above it. The last reference to an object of the user runs its
// finalizer, so such references are a `Reference`, and errors are dropped by `clear_error`. Arrays that functions in Python return
// are converted by `array_from`, numbers by `python_number`. nb::gil_scoped_release, nb::gil_scoped_acquire, nb::call_guard,
// nb::cast<double> and PyErr_Clear are used nowhere else (a test looks for them).
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <utility>

namespace nb = nanobind;

// For the initialisation of the module. After this call threads that ask for the lock of an interpreter that is no more sleep, and so
// do threads that the interpreter stops in a noexcept function of another library.
void watch_interpreter_exit();
bool interpreter_has_ended() noexcept;
[[noreturn]] void sleep_until_exit() noexcept;

// Result of `call`, which consists of functions of the C API alone. They throw nothing: what is caught is the end of the thread.
template <class Call>
auto call_interpreter(const Call& call) noexcept {
    if (interpreter_has_ended()) sleep_until_exit();
    try {
        return call();
    } catch (...) {
        sleep_until_exit();
    }
}

// Gives the lock back as long as it exists.
class ScopedGilRelease {
  public:
    ScopedGilRelease() : state_(PyEval_SaveThread()) {}
    ~ScopedGilRelease() {
        call_interpreter([&] {
            PyEval_RestoreThread(state_);
            return true;
        });
    }
    ScopedGilRelease(const ScopedGilRelease&) = delete;
    ScopedGilRelease& operator=(const ScopedGilRelease&) = delete;

  private:
    PyThreadState* state_;
};

// Holds the lock as long as it exists.
class ScopedGilAcquire {
  public:
    ScopedGilAcquire() : state_(call_interpreter([] { return PyGILState_Ensure(); })) {}
    ~ScopedGilAcquire() { PyGILState_Release(state_); }
    ScopedGilAcquire(const ScopedGilAcquire&) = delete;
    ScopedGilAcquire& operator=(const ScopedGilAcquire&) = delete;

  private:
    PyGILState_STATE state_;
};

// A reference that may be the last one to an object with a finalizer in Python.
class Reference : public nb::object {
  public:
    Reference() = default;
    Reference(nb::object&& object) noexcept : nb::object(std::move(object)) {}  // NOLINT(google-explicit-constructor)
    Reference(const Reference& other) = default;
    Reference(Reference&& other) noexcept = default;
    Reference& operator=(Reference other) noexcept {
        std::swap(m_ptr, other.m_ptr);
        return *this;
    }
    ~Reference() { drop(); }
    void drop() noexcept {
        PyObject* const object = release().ptr();
        if (object) call_interpreter([&] {
            Py_DECREF(object);
            return true;
        });
    }
};

// As PyErr_Clear: the traceback of an error holds objects of the user.
inline void clear_error() noexcept {
    call_interpreter([] {
        PyErr_Clear();
        return true;
    });
}

// A new reference from a function of the C API that may run Python code; nullptr is Python's own error.
template <class Call>
Reference object_from(const Call& call) {
    PyObject* const found = call_interpreter(call);
    if (!found) throw nb::python_error();
    return nb::steal(found);
}

inline Reference python_attribute(nb::handle object, const char* name) {
    return object_from([&] { return PyObject_GetAttrString(object.ptr(), name); });
}

// As a number; objects of other types have a method for it.
inline double python_number(nb::handle object) {
    const double found = call_interpreter([&] { return PyFloat_AsDouble(object.ptr()); });
    if (found == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return found;
}

// function(arguments...) in Python.
template <class... Arguments>
Reference call_python(nb::handle function, const Arguments&... arguments) {
    constexpr std::size_t count = sizeof...(arguments);
    const std::array<Reference, count> owned{Reference(nb::cast(arguments))...};
    std::array<PyObject*, count + 1> stack{};
    for (std::size_t k = 0; k < count; ++k) stack[k] = owned[k].ptr();
    return object_from([&] { return PyObject_Vectorcall(function.ptr(), stack.data(), count, nullptr); });
}

// object.name(arguments...) in Python.
template <class... Arguments>
Reference call_method(nb::handle object, const char* name, const Arguments&... arguments) {
    return call_python(python_attribute(object, name), arguments...);
}
