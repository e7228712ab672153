# SPDX-License-Identifier: MIT
"""A binding of <ferry/exchange.h> that needs no compiler: elements, buffers and capsules through ctypes."""

import ctypes

BUFFER, TYPESTR, ARROW = 1, 2, 3
OK, INVALID_ARGUMENT, BUSY, UNSUPPORTED = 0, 1, 6, 10
FLOAT, BFLOAT, INT, UINT, BOOL, COMPLEX, STRUCT = range(1, 8)
READ, UPDATE, OVERWRITE = 1, 2, 3
REST = ctypes.c_size_t(-1).value
RELEASE_OFFSET = 64  # offset of `release` in an ArrowArray


class Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("bits", ctypes.c_uint32), ("offset", ctypes.c_size_t),
                ("count", ctypes.c_size_t), ("reserved", ctypes.c_uint64 * 2)]


class Element(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("c_type", ctypes.c_char_p), ("identity", ctypes.c_uint64), ("bytes", ctypes.c_size_t),
                ("align", ctypes.c_size_t), ("kind", ctypes.c_int), ("bits", ctypes.c_uint32), ("fields", ctypes.POINTER(Field)),
                ("field_count", ctypes.c_size_t), ("cuda_declaration", ctypes.c_char_p),
                ("opencl_declaration", ctypes.c_char_p), ("reserved", ctypes.c_uint64 * 4)]


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
        """Returns the name of an element, or None if the language has none."""
        length = self.c.ferry_element_text(element, ctypes.c_int(language), None, ctypes.c_size_t(0))
        room = ctypes.create_string_buffer(length + 1)
        self.c.ferry_element_text(element, ctypes.c_int(language), room, ctypes.c_size_t(length + 1))
        return room.value.decode() if length else None

    def context(self, devices):
        """Creates a context with a list of devices. The caller destroys it by `destroy("ferry_context_destroy", ...)`."""
        options = (ctypes.c_char * 512)()  # zeros mean defaults; the list of devices is the first member
        ctypes.cast(options, ctypes.POINTER(ctypes.c_char_p))[0] = devices.encode()
        out = ctypes.c_void_p()
        self.do("ferry_context_create", options, ctypes.byref(out))
        return out

    def destroy(self, name, handle):
        getattr(self.c, name)(ctypes.byref(handle))

    def read(self, buffer, count, dtype_bytes):
        """Returns the bytes of a buffer, copied to the host."""
        room = ctypes.create_string_buffer(max(1, count * dtype_bytes))
        element = self.c.ferry_buffer_element(buffer)
        self.do("ferry_buffer_copy_to", buffer, element, ctypes.c_size_t(0), ctypes.c_size_t(count), room, None)
        return room.raw[:count * dtype_bytes]

    def buffer_of(self, context, element, data, count):
        """Creates a buffer with these bytes."""
        out = ctypes.c_void_p()
        self.do("ferry_buffer_create_from", context, element, ctypes.c_size_t(count), data, None, ctypes.byref(out))
        return out

    def fill(self, buffer, value):
        self.do("ferry_buffer_fill", buffer, self.c.ferry_buffer_element(buffer), ctypes.c_size_t(0), ctypes.c_size_t(REST), value, None)

    def host_address(self, buffer):
        """Returns the host address that a READ scope of the buffer returns."""
        scope, out = (ctypes.c_uint64 * 4)(), ctypes.c_void_p()
        element = self.c.ferry_buffer_element(buffer)
        self.do("ferry_buffer_open_host", buffer, element, ctypes.c_int(READ), ctypes.c_size_t(0), ctypes.c_size_t(REST), scope, ctypes.byref(out))
        self.do("ferry_scope_close", scope)
        return out.value


def open_library(path):
    """Opens the library. If this Python cannot load it, as with sanitizers, prints the reason and returns None."""
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


# Offset of the deleter in each kind of exported struct. The deleter's argument is the address of the struct.
RELEASE_OFFSETS = {LEGACY: 56, VERSIONED: 16, b"arrow_array": RELEASE_OFFSET, b"arrow_schema": 56}
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy_capsule(capsule):
    """Deletes a tensor or Arrow struct that no consumer took: the capsule was not renamed, or the struct was not moved."""
    for name, offset in RELEASE_OFFSETS.items():
        if _is_valid(capsule, name):
            inner = _pointer_of(capsule, name)
            release = ctypes.c_void_p.from_address(inner + offset).value
            if release:
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(inner)


def capsule_of(pointer, name):
    return _api.PyCapsule_New(pointer, name, ctypes.cast(_destroy_capsule, ctypes.c_void_p))


def take(capsule):
    """Returns the tensor of an unused capsule and its kind. The capsule stays unused."""
    for name in (VERSIONED, LEGACY):
        if _api.PyCapsule_IsValid(capsule, name):
            return ctypes.c_void_p(_api.PyCapsule_GetPointer(capsule, name)), name
    raise ValueError("no DLPack capsule")


def used(capsule, name):
    """Marks the capsule as used, because its tensor has a new owner."""
    _api.PyCapsule_SetName(capsule, USED[name])


# -- imports ------------------------------------------------------------------------------------------


def import_dlpack(ferry, context, array):
    """Imports an array as a buffer over its memory. Also returns whether its tensor is versioned."""
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
    """Imports an Arrow array on the CPU as a buffer. The capsule's array is moved, so that its destructor releases nothing."""
    schema, capsule = array.__arrow_c_array__()
    inner = _api.PyCapsule_GetPointer(capsule, b"arrow_array")
    schema_pointer = ctypes.c_void_p(_api.PyCapsule_GetPointer(schema, b"arrow_schema"))
    out = ctypes.c_void_p()
    device = ArrowDeviceArray(device_id=-1, device_type=1)
    ctypes.memmove(ctypes.addressof(device), inner, 80)
    ferry.do("ferry_buffer_import_arrow", context, ctypes.byref(device), schema_pointer, None, ctypes.byref(out))
    ctypes.memset(inner + RELEASE_OFFSET, 0, ctypes.sizeof(ctypes.c_void_p))
    return out


# -- exports ------------------------------------------------------------------------------------------


class LeaseOptions(ctypes.Structure):
    _fields_ = [("stream", ctypes.c_void_p), ("label", ctypes.c_char_p), ("offset", ctypes.c_size_t), ("count", ctypes.c_size_t),
                ("access", ctypes.c_int), ("place", ctypes.c_int), ("reserved", ctypes.c_uint64 * 4)]


class Layout(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("reserved", ctypes.c_uint64 * 2)]


class Lease:
    """A lease on host memory, for export as a DLPack tensor or as an Arrow array."""

    def __init__(self, ferry, buffer, access, shape=None, strides=None, offset=0):
        self.ferry, self.handle, self.layout, self.kept = ferry, ctypes.c_void_p(), None, []
        pointer = ctypes.c_void_p()
        options = LeaseOptions(label=b"a test of Python", access=access, offset=offset)
        ferry.do("ferry_lease_open", buffer, ferry.c.ferry_buffer_element(buffer), ctypes.byref(options), ctypes.byref(self.handle),
                 ctypes.byref(pointer))
        if shape is not None:
            numbers = ctypes.c_int64 * max(1, len(shape))
            self.layout = Layout(rank=len(shape), shape=numbers(*shape), strides=numbers(*strides) if strides else None)

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None):
        name = VERSIONED if max_version else LEGACY
        out = ctypes.c_void_p()
        call = "ferry_lease_export_dlpack" if max_version else "ferry_lease_export_dlpack_legacy"
        self.ferry.do(call, self.handle, ctypes.byref(self.layout) if self.layout else None, ctypes.byref(out))
        return capsule_of(out, name)

    def __arrow_c_array__(self, requested_schema=None):
        array, schema = ArrowDeviceArray(), ctypes.create_string_buffer(72)
        self.ferry.do("ferry_lease_export_arrow", self.handle, ctypes.byref(array), schema)
        self.kept += [array, schema]  # kept alive, because consumers move the contents out of it
        return capsule_of(ctypes.addressof(schema), b"arrow_schema"), capsule_of(ctypes.addressof(array), b"arrow_array")

    def close(self):
        self.ferry.destroy("ferry_lease_destroy", self.handle)
