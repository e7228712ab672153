# SPDX-License-Identifier: MIT
"""Names that C, C++, CUDA, HIP and OpenCL keep for themselves, and what of C a device has too: functions and constants."""

import re

# Functions of C that are within 2 ulp on every device, by how many arguments they take; and the float ones that CUDA
# computes less exactly than that, which therefore go by way of double.
ARITY = dict.fromkeys("sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh atanh fabs floor ceil trunc "
                      "round rint".split(), 1)
ARITY |= dict.fromkeys("pow atan2 fmod hypot fmin fmax copysign fdim".split(), 2) | {"fma": 3}
# Functions of C that are less exact on some devices: for kernels and functions with "inexact" alone.
INEXACT = dict.fromkeys("erf erfc cbrt tgamma".split(), 1)
CALLED = ARITY | INEXACT
WIDENED = frozenset("pow tan atan2 sinh atanh hypot asin".split())
REFUSED = frozenset(name + end for name in "cbrt erf erfc acosh asinh tgamma lgamma j0 j1 jn y0 y1 yn exp10".split() for end in ("", "f"))
# Functions and macros of C that CUDA C++ has by the same name, without an include.
SHARED_FUNCTIONS = frozenset("abs labs llabs isnan isinf isfinite signbit memcpy memset printf".split()) | frozenset(
    name + end for name in "ldexp frexp modf scalbn scalbln logb ilogb nearbyint remainder remquo nextafter lround llround lrint llrint".split()
    for end in ("", "f"))

# Macros of <math.h>, <float.h>, <limits.h> and <stdint.h>: what the texts for the host and for devices hold instead, so
# that neither depends on headers. Those with two values differ between the host and CUDA.
CONSTANTS = {
    "M_E": "2.71828182845904523536", "M_LOG2E": "1.44269504088896340736", "M_LOG10E": "0.43429448190325182765",
    "M_LN2": "0.69314718055994530942", "M_LN10": "2.30258509299404568402", "M_PI": "3.14159265358979323846",
    "M_PI_2": "1.57079632679489661923", "M_PI_4": "0.78539816339744830962", "M_1_PI": "0.31830988618379067154",
    "M_2_PI": "0.63661977236758134308", "M_2_SQRTPI": "1.12837916709551257390", "M_SQRT2": "1.41421356237309504880",
    "M_SQRT1_2": "0.70710678118654752440",
    "FLT_MAX": "3.40282346638528859812e+38f", "FLT_MIN": "1.17549435082228750797e-38f", "FLT_EPSILON": "1.1920928955078125e-7f",
    "FLT_DIG": "6", "FLT_MANT_DIG": "24",
    "DBL_MAX": "1.79769313486231570815e+308", "DBL_MIN": "2.22507385850720138309e-308", "DBL_EPSILON": "2.22044604925031308085e-16",
    "DBL_DIG": "15", "DBL_MANT_DIG": "53",
    "CHAR_BIT": "8", "SCHAR_MIN": "(-128)", "SCHAR_MAX": "127", "UCHAR_MAX": "255", "SHRT_MIN": "(-32767 - 1)", "SHRT_MAX": "32767",
    "USHRT_MAX": "65535", "INT_MIN": "(-2147483647 - 1)", "INT_MAX": "2147483647", "UINT_MAX": "4294967295u",
    "LONG_MAX": "((long)(~0ul >> 1))", "LONG_MIN": "(-(long)(~0ul >> 1) - 1)", "ULONG_MAX": "(~0ul)",
    "LLONG_MIN": "(-9223372036854775807ll - 1)", "LLONG_MAX": "9223372036854775807ll", "ULLONG_MAX": "18446744073709551615ull",
    "INT8_MIN": "(-128)", "INT8_MAX": "127", "UINT8_MAX": "255", "INT16_MIN": "(-32767 - 1)", "INT16_MAX": "32767", "UINT16_MAX": "65535",
    "INT32_MIN": "(-2147483647 - 1)", "INT32_MAX": "2147483647", "UINT32_MAX": "4294967295u",
    "INT64_MIN": "((int64_t)(-9223372036854775807 - 1))", "INT64_MAX": "((int64_t)9223372036854775807)",
    "UINT64_MAX": "((uint64_t)18446744073709551615u)", "SIZE_MAX": "((size_t)-1)",
    "INFINITY": ("INFINITY", "__int_as_float(0x7f800000)"), "HUGE_VALF": ("INFINITY", "__int_as_float(0x7f800000)"),
    "HUGE_VAL": ("(double)INFINITY", "__longlong_as_double(0x7ff0000000000000)"), "NAN": ("NAN", "__int_as_float(0x7fc00000)"),
}
HOST_CONSTANTS = {name: value if isinstance(value, str) else value[0] for name, value in CONSTANTS.items()}
CUDA_CONSTANTS = {name: value if isinstance(value, str) else value[1] for name, value in CONSTANTS.items()}
# Names that both languages define without a header of the user's.
SHARED_NAMES = frozenset(["true", "false", "NULL"])

# Words of C that C++ has not, or no longer; CUDA source is C++.
NOT_CPP = frozenset("restrict register _Bool _Complex _Imaginary _Generic _Alignas _Alignof _Atomic _Noreturn _Static_assert _Thread_local".split())

# Of languages into which kernels are compiled, and macros of their headers and compilers. A name must be one in all of them.
DEVICE_WORDS = frozenset("""
    threadIdx blockIdx blockDim gridDim warpSize dim3 half half2 hipThreadIdx_x hipBlockIdx_x hipBlockDim_x hipGridDim_x
    kernel global local constant private generic uniform pipe read_only write_only read_write uchar ushort uint ulong quad
    image1d_t image2d_t image3d_t sampler_t event_t queue_t ndrange_t reserve_id_t clk_event_t vec_step
    get_global_id get_global_size get_local_id get_group_id barrier reqd_work_group_size
    near far""".split())
# Of these, the words that OpenCL C has no other use for, not even as a member of a struct; its types of vectors; and its macros.
OPENCL_KEYWORDS = frozenset("kernel global local constant private generic uniform pipe read_only write_only read_write half quad".split())
VECTOR_TYPE = re.compile(r"(u?char|u?short|u?int|u?long|half|float|double|quad|bool)(2|3|4|8|16)")
OPENCL_MACRO = re.compile(r"as_(u?char|u?short|u?int|u?long|half|float|double|size_t|ptrdiff_t|u?intptr_t)(2|3|4|8|16)?|kernel_exec"
                          r"|CLK_\w+|CL_VERSION_\w+|cl(es)?_khr_\w+|M_\w+_[FH]|MAXFLOAT|FP_ILOGB(0|NAN)"
                          r"|(FLT|DBL|HALF)_(DIG|EPSILON|MANT_DIG|MAX|MIN|RADIX|MAX_EXP|MIN_EXP|MAX_10_EXP|MIN_10_EXP)|CHAR_M(AX|IN)")
HOST_MACROS = frozenset("""
    linux unix i386 errno assert offsetof complex imaginary I stdin stdout stderr EOF BUFSIZ
    fpclassify isfinite isinf isnan isnormal signbit isgreater isgreaterequal isless islessequal islessgreater isunordered""".split()) | frozenset(
    f"{sign}INT{bits}_C" for sign in ("", "U") for bits in (8, 16, 32, 64, "MAX"))

# Words of CUDA and OpenCL that no text may use, and functions of theirs, with what a text has in their place.
INSTEAD_OF_WORDS = {
    **dict.fromkeys("threadIdx blockIdx blockDim gridDim get_global_id".split(),
                    "'i', the number of the element, and with 'dimensions' also 'plane', 'row' and 'column'"),
    **dict.fromkeys("__shared__ __syncthreads __local get_local_id barrier".split(),
                    "a kernel that keeps its source, because texts have no shared memory: see 'ferry-gen embed' and ferry_kernel_create()"),
    **{f"atomic{name}": f"'atomic_{name.lower()}(NAME[k], v)' on an array that is 'update whole'" for name in ("Add", "Min", "Max")}}
INSTEAD_OF_FUNCTIONS = {
    "max": "'fmax' or 'fmaxf', or '?:' for whole numbers", "min": "'fmin' or 'fminf', or '?:' for whole numbers",
    "rsqrt": "'1 / sqrt(x)'", "rsqrtf": "'1 / sqrtf(x)'",
    **{f"__{name}f": f"'{name}f'" for name in "sin cos tan exp log log2 log10 pow".split()}}

# Headers of C11, C++17 and POSIX that are included by a name without a folder.
SYSTEM_HEADERS = frozenset("""
    aio.h assert.h complex.h cpio.h ctype.h dirent.h dlfcn.h errno.h fcntl.h fenv.h float.h fmtmsg.h fnmatch.h ftw.h glob.h grp.h iconv.h
    inttypes.h iso646.h langinfo.h libgen.h limits.h locale.h math.h monetary.h mqueue.h ndbm.h netdb.h nl_types.h poll.h pthread.h pwd.h
    regex.h sched.h search.h semaphore.h setjmp.h signal.h spawn.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h
    stdlib.h stdnoreturn.h string.h strings.h stropts.h syslog.h tar.h termios.h tgmath.h threads.h time.h trace.h uchar.h ulimit.h
    unistd.h utime.h utmpx.h wchar.h wctype.h wordexp.h
    algorithm any array atomic bitset charconv chrono codecvt complex condition_variable deque exception execution filesystem
    forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator limits list locale map memory
    memory_resource mutex new numeric optional ostream queue random ratio regex scoped_allocator set shared_mutex sstream stack stdexcept
    streambuf string string_view strstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
    valarray variant vector cassert ccomplex cctype cerrno cfenv cfloat cinttypes ciso646 climits clocale cmath csetjmp csignal cstdalign
    cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar cwchar cwctype""".split())
