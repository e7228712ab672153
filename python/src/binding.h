/* SPDX-License-Identifier: MIT */
#ifndef FERRYPY_BINDING_H
#define FERRYPY_BINDING_H

/*
 * The Python extension. It stands on the public C API and on the limited API of CPython 3.11. The
 * types here hold what must be fast or must end in the right order. Python code in python/ferry
 * derives from them and adds the rest.
 *
 * Rules of this folder:
 * - A call of the library that may block runs without the interpreter lock.
 * - A callback that the library calls on its own threads takes the lock only to run Python code of
 * the program.
 * - A deallocator never calls the library inside a callback of the library: it defers the call
 * (deferred.c).
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include <ferry/exchange.h>
#include <ferry/ferry.h>

/* More than NumPy and PyTorch make. */
#define FERRYPY_RANK_MAX 64

/* -- error.c ----------------------------------------------------------------------------------- */

/* Adds the exception classes to the module; -1 with an exception set on failure. */
int ferrypy_error_init(PyObject *module);
/* Raises the exception of a failed call, with the message of ferry_last_error(); always NULL. */
PyObject *ferrypy_fail(ferry_status status);
/* Gives the FileError that is set, if its message names `path`, the path as its filename. NULL:
 * none.
 */
void ferrypy_name_file(const char *path);
/* Raises the exception of a status with a message of the binding; always NULL. */
PyObject *ferrypy_fail_with(ferry_status status, const char *format, ...);
/* Turns a builtin exception about a type, a value or a size into one of Ferry's, whose text begins
 * with `what`. Leaves others, and those of Ferry, as they are. */
void ferrypy_refused(const char *what);
/* PyArg_ParseTuple() that raises Ferry's exceptions, also for numbers that exceed a C integer. */
bool ferrypy_parse(PyObject *arguments, const char *format, ...);
/* Returns a text of the library as a str. It may have any bytes, as paths do, or be cut inside a
 * character. */
PyObject *ferrypy_text(const char *text);
/* Reads an int; false with an exception set. What exceeds an int is an ArgumentError. */
bool ferrypy_int(PyObject *value, int *out);
/* Returns the status of the exception that is set, DEVICE for one that is not Ferry's, and its
 * text. Clears the exception, and keeps it as the cause of the failure that has the text. */
ferry_status ferrypy_take_exception(char *text, size_t bytes);

/* -- deferred.c -------------------------------------------------------------------------------- */

/* Gives an object back to the library, or a Python object to the interpreter. */
typedef void ferrypy_release(void *object);
/* Calls `release` now without the interpreter lock, or after the callback that this thread runs.
 * Needs the interpreter lock. */
void ferrypy_release_later(ferrypy_release *release, void *object);
/* Runs what was deferred. Needs the interpreter lock. Does nothing inside a callback. */
void ferrypy_run_deferred(void);
/* An owner of memory that a Python object exports. The library may give it back on any thread. */
struct ferrypy_owner;
/* Returns an owner of the memory that an object exports; NULL with an exception set on failure. */
struct ferrypy_owner *ferrypy_owner_create(PyObject *exporter, int flags);
Py_buffer *ferrypy_owner_buffer(struct ferrypy_owner *owner);
void ferrypy_owner_destroy(struct ferrypy_owner *owner);
/* on_release of a wrap. */
void ferrypy_owner_on_release(void *memory, void *user);
/* Says that `node` is the first member of a struct that malloc() made. It needs no interpreter
 * lock, and the struct is freed later. */
struct ferrypy_deferred {
    struct ferrypy_deferred *next;
    ferrypy_release *release;
    void *object;
    bool needs_interpreter; /* `release` runs with the interpreter lock, and frees the struct itself
                             */
};
void ferrypy_defer(struct ferrypy_deferred *node);
/*
 * A callback of the library begins and ends on this thread. False: the interpreter ends, and no
 * Python code may run. A working callback may call every function of the library, so that nothing
 * is deferred in it.
 */
enum ferrypy_callback { FERRYPY_DEFERRING, FERRYPY_WORKING };
bool ferrypy_callback_enter(enum ferrypy_callback kind, PyGILState_STATE *out);
void ferrypy_callback_leave(enum ferrypy_callback kind, PyGILState_STATE state);
/* True inside a callback of the library in which destroying objects is deferred. */
bool ferrypy_in_callback(void);
/* atexit: no callback enters Python any more. */
PyObject *ferrypy_at_exit(PyObject *module, PyObject *unused);

/* -- element.c --------------------------------------------------------------------------------- */

struct element_object {
    PyObject_HEAD const ferry_element *element; /* lives as long as the process */
    PyObject *dtype;                            /* of NumPy; NULL until it was asked for */
    Py_hash_t hash;                             /* 0 until it was asked for */
    char *format;                               /* of the buffer protocol; NULL when it has none */
};
extern PyTypeObject *ferrypy_element_type;
int ferrypy_element_init(PyObject *module);
/* Returns the object of an element; a new reference. The element is interned if it is not the
 * library's own. */
PyObject *ferrypy_element_object(const ferry_element *element);
/* Returns NumPy's dtype of the element; a new reference. */
PyObject *ferrypy_element_dtype(struct element_object *self);
/* Returns the object of the element in a buffer's format; a new reference. */
PyObject *ferrypy_element_of_buffer(const Py_buffer *buffer);

/* -- context.c, stream.c, event.c -------------------------------------------------------------- */

struct context_object {
    PyObject_HEAD ferry_context *context; /* one owner */
    struct ferrypy_callbacks *callbacks;  /* NULL: none */
};
extern PyTypeObject *ferrypy_context_type;
int ferrypy_context_init(PyObject *module);

struct stream_object {
    PyObject_HEAD struct context_object *context;
    ferry_stream *stream;
    bool owned; /* false: a default stream, which the context lends */
    /* the object of another library whose native stream this one wraps, or NULL; it must live until
     * `stream` is destroyed */
    PyObject *source;
};
extern PyTypeObject *ferrypy_stream_type;
int ferrypy_stream_init(PyObject *module);
/* Returns the default stream of a place, borrowed; NULL with an exception set for the host and
 * unknown places. */
ferry_stream *ferrypy_default_stream(struct context_object *context, int place);

/* -- graph.c ----------------------------------------------------------------------------------- */

extern PyTypeObject *ferrypy_graph_type;
int ferrypy_graph_init(PyObject *module);
/* Makes the graph that is being recorded from the stream, if there is one, keep a kernel whose host
 * function it is going to call. False with an exception set on failure. */
bool ferrypy_graph_keep(const ferry_stream *stream, PyObject *kernel);

struct event_object {
    PyObject_HEAD struct context_object *context;
    PyObject *weak_references;
    ferry_event *event;
    struct ferrypy_owner *memory; /* that an asynchronous copy uses; NULL: none */
    PyObject *path;               /* of the file that it uses, as bytes; NULL: none */
};
extern PyTypeObject *ferrypy_event_type;
int ferrypy_event_init(PyObject *module);
/* Takes `event` and `memory`, also on failure. `path` is bytes or NULL. */
PyObject *ferrypy_event_object(struct context_object *context, ferry_event *event,
                               struct ferrypy_owner *memory, PyObject *path);

/* -- array.c ----------------------------------------------------------------------------------- */

struct array_object {
    PyObject_HEAD struct context_object *context;
    struct element_object *element;
    ferry_buffer *buffer; /* exactly the elements of the array; NULL: closed */
    PyObject *shape;      /* tuple */
    int64_t *extents;     /* `rank` sizes, then `rank` strides in elements */
    int rank;
    int home; /* place of the memory that its owner lent, plus 1; 0: the array's memory is its own
               */
    bool is_chunk;              /* of stream_file(): its memory gets other elements afterwards */
    struct array_object *chunk; /* the chunk that this array is a view of, which it ends with */
};
extern PyTypeObject *ferrypy_array_type;
int ferrypy_array_init(PyObject *module);
/*
 * Returns an array over `buffer`, which it takes, also on failure. NULL strides: packed, the last
 * index fastest. `type` is ferrypy_array_type or derives from it.
 */
PyObject *ferrypy_array_object(PyTypeObject *type, struct context_object *context,
                               PyObject *element, ferry_buffer *buffer, int rank,
                               const int64_t *shape, const int64_t *strides);
/* Notes where the memory is that a new array wraps. Returns `array`, also NULL. */
PyObject *ferrypy_array_lent(PyObject *array);
/* Notes that `view` shows memory of `array`, and ends with it if that is a chunk of stream_file().
 */
void ferrypy_array_view_of(struct array_object *view, struct array_object *array);
/* Returns the number of elements of a tuple of sizes, and its sizes in `out`; -1 with an exception
 * set on failure. */
int64_t ferrypy_shape_read(PyObject *shape, size_t element_bytes, int64_t out[FERRYPY_RANK_MAX],
                           int *out_rank);
/* Raises StateError and returns false for a closed array. */
bool ferrypy_array_check(struct array_object *self);
/* True when the strides are those of C. */
bool ferrypy_array_is_c(const struct array_object *self);
/* Joins the methods that the files of this folder add to Array. */
extern PyMethodDef ferrypy_array_maker_methods[], ferrypy_array_access_methods[];

/* -- access.c ---------------------------------------------------------------------------------- */

struct access_object {
    PyObject_HEAD struct array_object *array;
    struct stream_object *stream; /* NULL: the host, or the default stream of the place */
    ferry_lease *lease;           /* NULL until it was opened */
    void *pointer;
    PyObject *view;      /* weak reference to what `with` returned, when its user may write it */
    Py_ssize_t *extents; /* shape and strides in bytes of the buffer protocol; NULL until they were
                            asked for */
    ferry_access access;
    int place;
    bool raw, entered, ended;
    bool laying;    /* an ndarray with strides is being laid over the memory, which is asked for as
                       plain bytes */
    bool lent;      /* the CUDA array interface has the address */
    bool unordered; /* on a device: its user does not work on a stream of Ferry */
    void *native;   /* the stream on which it works, which may end at any time; NULL if unknown */
};
extern PyTypeObject *ferrypy_access_type;
int ferrypy_access_init(PyObject *module);
/* Returns a new access of an array that is not open yet. */
struct access_object *ferrypy_access_object(struct array_object *array, ferry_access access,
                                            int place, struct stream_object *stream, bool raw);
/* Opens the lease unless it is open; -1 with an exception set on failure. */
int ferrypy_access_open(struct access_object *self);

/* -- memory.c ---------------------------------------------------------------------------------- */

/*
 * Reads the layout of exported memory, with strides in elements. `*out_packed` says whether its
 * elements lie next to each other in some order of the dimensions, and if not, the strides have no
 * meaning. False with an exception set for memory that no array can have.
 */
bool ferrypy_memory_read(const Py_buffer *view, size_t element_bytes,
                         int64_t shape[FERRYPY_RANK_MAX], bool *out_packed,
                         int64_t strides[FERRYPY_RANK_MAX]);
/* True when the elements lie next to each other in some order of the dimensions. */
bool ferrypy_memory_is_packed(int rank, const int64_t *shape, const int64_t *strides);

/* -- label.c ----------------------------------------------------------------------------------- */

#define FERRYPY_LABEL_BYTES 96
int ferrypy_label_init(PyObject *module);
/* Writes "python, FILE:LINE" of the Python code that called the package, as the label of a lease.
 */
void ferrypy_label(char text[FERRYPY_LABEL_BYTES]);

/* -- foreign.c --------------------------------------------------------------------------------- */

/*
 * Who ends memory that crosses the border of the library. A consumer ends an export on any thread,
 * with or without the interpreter lock, where nothing may wait: so an export owns its buffer and
 * its context, which are given back later. And the library ends an import inside a callback, where
 * code of Python may not run: so the producer's function is called later. Both change the struct in
 * place. False with an exception set when there is no memory.
 */
struct DLManagedTensor;
struct DLManagedTensorVersioned;
struct ArrowArray;
bool ferrypy_lend_versioned(struct DLManagedTensorVersioned *tensor, struct array_object *array);
bool ferrypy_lend_legacy(struct DLManagedTensor *tensor, struct array_object *array);
bool ferrypy_lend_arrow(struct ArrowArray *arrow, struct array_object *array);
bool ferrypy_take_versioned(struct DLManagedTensorVersioned *tensor);
bool ferrypy_take_legacy(struct DLManagedTensor *tensor);
bool ferrypy_take_arrow(struct ArrowArray *arrow);
/* Undoes ferrypy_take_* after a refused import. */
void ferrypy_untake_versioned(struct DLManagedTensorVersioned *tensor);
void ferrypy_untake_legacy(struct DLManagedTensor *tensor);
void ferrypy_untake_arrow(struct ArrowArray *arrow);

/* -- dlpack.c, arrow.c ------------------------------------------------------------------------- */

int ferrypy_dlpack_init(PyObject *module);
int ferrypy_arrow_init(PyObject *module);

/* -- kernel.c, file.c, copy.c ------------------------------------------------------------------ */

int ferrypy_copy_init(PyObject *module);
int ferrypy_share_init(PyObject *module);
int ferrypy_kernel_init(PyObject *module);
int ferrypy_file_init(PyObject *module);

/* A function of Python code that one call of the library calls, and the exception that ended the
 * call. */
struct ferrypy_progress {
    PyObject *function; /* NULL: none */
    PyObject *exception[3];
    enum ferrypy_callback kind; /* of the library's callback that calls it */
};
/* keep_going of the library: calls function(done, total), which cancels by returning False or
 * raising. */
bool ferrypy_keep_going(size_t done, size_t total, void *user);
/* Keeps the exception that is set, for ferrypy_progress_end(). */
void ferrypy_progress_raise(struct ferrypy_progress *progress);
/* Raises what was kept, else the failure. Returns false when it raised. */
bool ferrypy_progress_end(struct ferrypy_progress *progress, ferry_status status);

/* -- access_memory.c --------------------------------------------------------------------------- */

int ferrypy_access_get_buffer(PyObject *object, Py_buffer *view, int flags);
PyObject *ferrypy_access_cuda_interface(PyObject *object, void *unused);
/* Returns an ndarray over the memory of an open access at the host, or a memoryview without NumPy.
 * It keeps the access alive. */
PyObject *ferrypy_access_view(struct access_object *self);
/* Finds numpy.ndarray, borrowed. NULL without an exception when there is no NumPy. */
PyObject *ferrypy_ndarray(void);

/* Adds a type and returns a reference that the caller keeps; NULL with an exception set on failure.
 */
PyTypeObject *ferrypy_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject *base);
/* Ends a deallocator: frees the object and drops its type. */
void ferrypy_free(PyObject *self);

/* Runs `call`, whose status goes to `status`, without the interpreter lock. */
#define FERRYPY_BLOCKING(status, call)                                                             \
    do {                                                                                           \
        Py_BEGIN_ALLOW_THREADS(status) = (call);                                                   \
        Py_END_ALLOW_THREADS                                                                       \
    } while (0)

/* Runs a call without a result, without the interpreter lock. */
#define FERRYPY_RELEASE(call)                                                                      \
    do {                                                                                           \
        Py_BEGIN_ALLOW_THREADS call;                                                               \
        Py_END_ALLOW_THREADS                                                                       \
    } while (0)

#endif
