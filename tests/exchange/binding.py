# SPDX-License-Identifier: MIT
"""What a binding without a compiler needs of <ferry/exchange.h>: elements, buffers and capsules by ctypes."""

import ctypes

BUFFER, TYPESTR, ARROW = 1, 2, 3
OK, INVALID_ARGUMENT, UNSUPPORTED = 0, 1, 10
FLOAT, BFLOAT, INT, UINT, BOOL, COMPLEX, STRUCT = range(1, 8)
READ, UPDATE, OVERWRITE = 1, 2, 3
REST = ctypes.c_size_t(-1).value
RELEASE_OFFSET = 64  # of an ArrowArray


class Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("bits", ctypes.c_uint32), ("offset", ctypes.c_size_t),
                ("count", ctypes.c_size_t), ("reserved", ctypes.c_uint64 * 2)]


class Element(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("c_type", ctypes.c_char_p), ("identity", ctypes.c_uint64), ("bytes", ctypes.c_size_t),
                ("align", ctypes.c_size_t), ("kind", ctypes.c_int), ("bits", ctypes.c_uint32), ("fields", ctypes.POINTER(Field)),
                ("field_count", ctypes.c_size_t), ("cuda_declaration", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * 4)]


class Failure(Exception):
    def __init__(self, status, message):
        super().__init__(f"status {status}: {message}")
        self.status = status


class Library:
    """The shared library; each call that returns a status raises Failure."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.ferry_last_error.restype = ctypes.c_char_p
        self.c.ferry_element_text.restype = ctypes.c_size_t
        self.c.ferry_element_scalar.restype = ctypes.POINTER(Element)
        self.c.ferry_buffer_element.restype = ctypes.POINTER(Element)
        self.c.ferry_buffer_count.restype = ctypes.c_size_t

    def do(self, name, *arguments):
        status = getattr(self.c, name)(*arguments)
        if status != OK:
            raise Failure(status, self.c.ferry_last_error().decode("utf-8", "replace"))

    def parse(self, language, text):
        out = ctypes.POINTER(Element)()
        self.do("ferry_element_parse", ctypes.c_int(language), text.encode(), ctypes.byref(out))
        return out

    def text(self, element, language):
        """None where the language has no word."""
        length = self.c.ferry_element_text(element, ctypes.c_int(language), None, ctypes.c_size_t(0))
        room = ctypes.create_string_buffer(length + 1)
        self.c.ferry_element_text(element, ctypes.c_int(language), room, ctypes.c_size_t(length + 1))
        return room.value.decode() if length else None

    def context(self, devices):
        """A context by its list of devices; closed with `destroy("ferry_context_destroy", ...)`."""
        options = (ctypes.c_char * 512)()  # zeros are defaults, and the devices come first
        ctypes.cast(options, ctypes.POINTER(ctypes.c_char_p))[0] = devices.encode()
        out = ctypes.c_void_p()
        self.do("ferry_context_create", options, ctypes.byref(out))
        return out

    def destroy(self, name, handle):
        getattr(self.c, name)(ctypes.byref(handle))

    def read(self, buffer, count, dtype_bytes):
        """Its bytes, by way of the host."""
        room = ctypes.create_string_buffer(max(1, count * dtype_bytes))
        element = self.c.ferry_buffer_element(buffer)
        self.do("ferry_buffer_copy_to", buffer, element, ctypes.c_size_t(0), room, ctypes.c_size_t(count), None)
        return room.raw[:count * dtype_bytes]

    def fill(self, buffer, value):
        self.do("ferry_buffer_fill", buffer, self.c.ferry_buffer_element(buffer), ctypes.c_size_t(0), ctypes.c_size_t(REST), value, None)

    def host_address(self, buffer):
        """Where a READ scope finds the bytes on the host."""
        scope, out = (ctypes.c_uint64 * 4)(), ctypes.c_void_p()
        element = self.c.ferry_buffer_element(buffer)
        self.do("ferry_buffer_open_host", buffer, element, ctypes.c_int(READ), ctypes.c_size_t(0), ctypes.c_size_t(REST), scope, ctypes.byref(out))
        self.do("ferry_scope_close", scope)
        return out.value


def open_library(path):
    """None, with the reason on standard output, where the library cannot be loaded into this Python: with sanitizers."""
    try:
        return Library(path)
    except OSError as error:
        print(f"1..0 # SKIP {error}")
        return None


# -- capsules -----------------------------------------------------------------------------------------

_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {LEGACY: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}


def capsule_of(pointer, name):
    """An unused capsule that frees nothing by itself."""
    return _api.PyCapsule_New(pointer, name, None)


def take(capsule):
    """The tensor of an unused capsule and which kind it is; the capsule is still unused."""
    for name in (VERSIONED, LEGACY):
        if _api.PyCapsule_IsValid(capsule, name):
            return ctypes.c_void_p(_api.PyCapsule_GetPointer(capsule, name)), name
    raise ValueError("no DLPack capsule")


def used(capsule, name):
    """Marks the capsule, whose tensor has a new owner."""
    _api.PyCapsule_SetName(capsule, USED[name])


# -- imports ------------------------------------------------------------------------------------------


def import_dlpack(ferry, context, array):
    """A buffer over an array's memory, and whether its tensor is versioned."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = array.__dlpack__()
    tensor, name = take(capsule)
    out = ctypes.c_void_p()
    call = "ferry_buffer_import_dlpack" if name == VERSIONED else "ferry_buffer_import_dlpack_legacy"
    ferry.do(call, context, tensor, None, ctypes.byref(out))
    used(capsule, name)
    return out, name == VERSIONED


class ArrowDeviceArray(ctypes.Structure):
    _fields_ = [("array", ctypes.c_char * 80), ("device_id", ctypes.c_int64), ("device_type", ctypes.c_int32), ("sync_event", ctypes.c_void_p),
                ("reserved", ctypes.c_int64 * 3)]


def import_arrow(ferry, context, array):
    """A buffer over an Arrow array on the CPU. The capsule's array is moved, so that its destructor releases nothing."""
    schema, capsule = array.__arrow_c_array__()
    inner = _api.PyCapsule_GetPointer(capsule, b"arrow_array")
    schema_pointer = ctypes.c_void_p(_api.PyCapsule_GetPointer(schema, b"arrow_schema"))
    out = ctypes.c_void_p()
    device = ArrowDeviceArray(device_id=-1, device_type=1)
    ctypes.memmove(ctypes.addressof(device), inner, 80)
    ferry.do("ferry_buffer_import_arrow", context, ctypes.byref(device), schema_pointer, None, ctypes.byref(out))
    ctypes.memset(inner + RELEASE_OFFSET, 0, ctypes.sizeof(ctypes.c_void_p))
    return out
