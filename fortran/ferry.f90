! SPDX-License-Identifier: MIT
!
! Ferry for Fortran 2008 and newer: contexts, streams, scopes and kernels.
!
! Buffers are in the modules that `ferry-gen fortran` writes, one for each element, such as
! ferry_double_buffers. Compile this file and those modules with your own compiler; a .mod file
! belongs to one compiler and is not installed.
!
! Every subroutine has the optional argument `status`. Without it, a failure prints the message and
! stops the program. <ferry/buffer.h> and its kin say what each call does and which statuses it has.

! The C functions that the modules call, and the C structs.
module ferry_c
    use, intrinsic :: iso_c_binding
    implicit none
    public

    type, bind(c) :: ferry_c_scope
        integer(c_int64_t) :: opaque(4) = 0
    end type

    type, bind(c) :: ferry_c_grid
        integer(c_int32_t) :: blocks(3) = 1, threads(3) = 1, shared_bytes = 0, flags = 0, cluster(3) = 0
        integer(c_int64_t) :: reserved(4) = 0
    end type

    ! An argument of a launch; the typed modules and ferry_size_value() make it.
    type, bind(c) :: ferry_argument
        type(c_ptr) :: element = c_null_ptr, buffer = c_null_ptr
        integer(c_size_t) :: offset = 0, count = 0
        type(c_ptr) :: pointer = c_null_ptr
        integer(c_size_t) :: bytes = 0, align = 0
        integer(c_int) :: access = 0
        integer(c_int32_t) :: is_value = 0
        integer(c_int64_t) :: words(4) = 0, reserved(2) = 0
    end type

    ! A parameter of a kernel; the typed modules and ferry_size_parameter() make it.
    type, bind(c) :: ferry_parameter
        type(c_ptr) :: element = c_null_ptr
        integer(c_int) :: access = 0, overlap = 0
        type(c_ptr) :: name = c_null_ptr
        integer(c_int64_t) :: reserved = 0
    end type

    type, bind(c) :: ferry_c_field
        type(c_ptr) :: name = c_null_ptr
        integer(c_int) :: kind = 0
        integer(c_int32_t) :: bits = 0
        integer(c_size_t) :: offset = 0, count = 1
        integer(c_int64_t) :: reserved(2) = 0
    end type

    type, bind(c) :: ferry_c_element
        type(c_ptr) :: name = c_null_ptr, c_type = c_null_ptr
        integer(c_int64_t) :: identity = 0
        integer(c_size_t) :: bytes = 0, align = 0
        integer(c_int) :: kind = 0
        integer(c_int32_t) :: bits = 0
        type(c_ptr) :: fields = c_null_ptr
        integer(c_size_t) :: field_count = 0
        type(c_ptr) :: cuda_declaration = c_null_ptr, opencl_declaration = c_null_ptr
        integer(c_int64_t) :: reserved(4) = 0
    end type

    integer(c_int), parameter :: ferry_c_code_cuda = 1, ferry_c_code_opencl = 3

    type, bind(c) :: ferry_c_kernel_code
        integer(c_int) :: kind = 0
        integer(c_int32_t) :: flags = 0
        type(c_ptr) :: code = c_null_ptr
        integer(c_size_t) :: bytes = 0
        type(c_ptr) :: options = c_null_ptr
        integer(c_size_t) :: option_count = 0
        type(c_ptr) :: target = c_null_ptr
        integer(c_int64_t) :: reserved(2) = 0
    end type

    type, bind(c) :: ferry_c_kernel_source
        type(c_ptr) :: name = c_null_ptr, codes = c_null_ptr
        integer(c_size_t) :: code_count = 0
        type(c_funptr) :: host_function = c_null_funptr
        type(c_ptr) :: user = c_null_ptr, parameters = c_null_ptr
        integer(c_size_t) :: parameter_count = 0
        integer(c_int64_t) :: reserved(4) = 0
    end type

    type, bind(c) :: ferry_c_context_options
        type(c_ptr) :: devices = c_null_ptr
        type(c_funptr) :: log = c_null_funptr
        type(c_ptr) :: log_user = c_null_ptr
        type(c_funptr) :: trace = c_null_funptr
        type(c_ptr) :: trace_user = c_null_ptr
        integer(c_size_t) :: buffer_bytes_limit = 0, device_bytes_limit = 0, host_bytes_limit = 0, pinned_bytes_limit = 0
        type(c_ptr) :: tuning = c_null_ptr, allocation_log = c_null_ptr
        integer(c_size_t) :: pin_after = 0
        type(c_ptr) :: trace_file = c_null_ptr
        integer(c_int64_t) :: reserved(4) = 0
    end type

    type, bind(c) :: ferry_c_buffer_options
        type(c_ptr) :: name = c_null_ptr
        integer(c_size_t) :: align = 0
        integer(c_int) :: memory = 0
        logical(c_bool) :: scrub = .false._c_bool, zero_on_release = .false._c_bool
        integer(c_int) :: place = 0
        integer(c_int64_t) :: reserved(3) = 0
    end type

    integer(c_int), parameter :: ferry_c_memory_shared = 5

    ! A handle of memory that processes share. The program may copy and send its bytes.
    type, bind(c) :: ferry_share
        integer(c_int8_t) :: bytes(64) = 0
    end type

    type, bind(c) :: ferry_c_share_options
        type(c_ptr) :: name = c_null_ptr
        logical(c_bool) :: read_only = .false._c_bool
        integer(c_int) :: place = 0
        integer(c_int64_t) :: reserved(4) = 0
    end type

    type, bind(c) :: ferry_c_graph_options
        type(c_ptr) :: name = c_null_ptr
        integer(c_int64_t) :: reserved(3) = 0
    end type

    type, bind(c) :: ferry_c_lease_options
        type(c_ptr) :: stream = c_null_ptr, label = c_null_ptr
        integer(c_size_t) :: offset = 0, count = 0
        integer(c_int) :: access = 0, place = 0
        type(c_ptr) :: native_stream = c_null_ptr
        integer(c_int64_t) :: reserved(3) = 0
    end type

    ! One side of a region: a buffer, memory or a file. Offsets and pitches are in elements, and count from 0.
    type, bind(c) :: ferry_copy_side
        type(c_ptr) :: buffer = c_null_ptr, memory = c_null_ptr, path = c_null_ptr
        integer(c_int64_t) :: file_offset = 0
        type(c_ptr) :: element = c_null_ptr
        integer(c_size_t) :: offset = 0, row_pitch = 0, plane_pitch = 0
        integer(c_int64_t) :: reserved(2) = 0
    end type

    ! One copy of ferry_copy(): `planes` planes of `rows` rows of `count` elements. The typed modules make it.
    type, bind(c) :: ferry_copy_region
        type(ferry_copy_side) :: target, source
        type(c_ptr) :: value = c_null_ptr
        integer(c_size_t) :: count = 0, rows = 0, planes = 0
        type(c_ptr) :: conversion = c_null_ptr
        integer(c_int64_t) :: reserved(4) = 0
    end type

    type, bind(c) :: ferry_c_copy_options
        type(c_ptr) :: stream = c_null_ptr
        integer(c_int) :: convert = 0
        integer(c_size_t) :: chunk_bytes = 0
        logical(c_bool) :: file_direct = .false._c_bool, file_keep_rest = .false._c_bool
        type(c_funptr) :: keep_going = c_null_funptr
        type(c_ptr) :: user = c_null_ptr
        integer(c_int64_t) :: reserved(4) = 0
    end type

    interface
        function ferry_c_last_error() bind(c, name='ferry_last_error') result(text)
            import :: c_ptr
            type(c_ptr) :: text
        end function

        function ferry_c_status_name(status) bind(c, name='ferry_status_name') result(text)
            import :: c_ptr, c_int
            integer(c_int), value :: status
            type(c_ptr) :: text
        end function

        function ferry_c_strlen(text) bind(c, name='strlen') result(length)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
            integer(c_size_t) :: length
        end function

        function ferry_c_context_create(options, out) bind(c, name='ferry_context_create') result(status)
            import :: c_ptr, c_int, ferry_c_context_options
            type(ferry_c_context_options), intent(in) :: options
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_context_shared(out) bind(c, name='ferry_context_shared') result(status)
            import :: c_ptr, c_int
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_context_retain(context) bind(c, name='ferry_context_retain') result(same)
            import :: c_ptr
            type(c_ptr), value :: context
            type(c_ptr) :: same
        end function

        subroutine ferry_c_context_destroy(context) bind(c, name='ferry_context_destroy')
            import :: c_ptr
            type(c_ptr), intent(inout) :: context
        end subroutine

        function ferry_c_context_place_count(context) bind(c, name='ferry_context_place_count') result(count)
            import :: c_ptr, c_int
            type(c_ptr), value :: context
            integer(c_int) :: count
        end function

        function ferry_c_context_stream(context, place) bind(c, name='ferry_context_stream') result(stream)
            import :: c_ptr, c_int
            type(c_ptr), value :: context
            integer(c_int), value :: place
            type(c_ptr) :: stream
        end function

        function ferry_c_stream_create(context, place, out) bind(c, name='ferry_stream_create') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: context
            integer(c_int), value :: place
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_stream_synchronize(stream) bind(c, name='ferry_stream_synchronize') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: stream
            integer(c_int) :: status
        end function

        function ferry_c_stream_native(stream) bind(c, name='ferry_stream_native') result(native)
            import :: c_ptr
            type(c_ptr), value :: stream
            type(c_ptr) :: native
        end function

        subroutine ferry_c_stream_destroy(stream) bind(c, name='ferry_stream_destroy')
            import :: c_ptr
            type(c_ptr), intent(inout) :: stream
        end subroutine

        function ferry_c_graph_begin(stream, options, out) bind(c, name='ferry_graph_begin') result(status)
            import :: c_ptr, c_int, ferry_c_graph_options
            type(c_ptr), value :: stream
            type(ferry_c_graph_options), intent(in) :: options
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_graph_end(graph) bind(c, name='ferry_graph_end') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: graph
            integer(c_int) :: status
        end function

        function ferry_c_graph_launch(graph, stream) bind(c, name='ferry_graph_launch') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: graph, stream
            integer(c_int) :: status
        end function

        subroutine ferry_c_graph_destroy(graph) bind(c, name='ferry_graph_destroy')
            import :: c_ptr
            type(c_ptr), intent(inout) :: graph
        end subroutine

        function ferry_c_scope_close(scope) bind(c, name='ferry_scope_close') result(status)
            import :: c_int, ferry_c_scope
            type(ferry_c_scope), intent(inout) :: scope
            integer(c_int) :: status
        end function

        function ferry_c_scope_abandon(scope) bind(c, name='ferry_scope_abandon') result(status)
            import :: c_int, ferry_c_scope
            type(ferry_c_scope), intent(inout) :: scope
            integer(c_int) :: status
        end function

        function ferry_c_scope_wait(scope) bind(c, name='ferry_scope_wait') result(status)
            import :: c_int, ferry_c_scope
            type(ferry_c_scope), intent(inout) :: scope
            integer(c_int) :: status
        end function

        function ferry_c_element_scalar(kind, bits) bind(c, name='ferry_element_scalar') result(element)
            import :: c_ptr, c_int, c_int32_t
            integer(c_int), value :: kind
            integer(c_int32_t), value :: bits
            type(c_ptr) :: element
        end function

        function ferry_c_element_intern(element, out) bind(c, name='ferry_element_intern') result(status)
            import :: c_ptr, c_int, ferry_c_element
            type(ferry_c_element), intent(in) :: element
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_size_element() bind(c, name='ferry_size_element') result(element)
            import :: c_ptr
            type(c_ptr) :: element
        end function

        function ferry_c_buffer_create(context, element, count, options, out) bind(c, name='ferry_buffer_create') result(status)
            import :: c_ptr, c_int, c_size_t, ferry_c_buffer_options
            type(c_ptr), value :: context, element
            integer(c_size_t), value :: count
            type(ferry_c_buffer_options), intent(in) :: options
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_export(buffer, out) bind(c, name='ferry_buffer_export') result(status)
            import :: c_ptr, c_int, ferry_share
            type(c_ptr), value :: buffer
            type(ferry_share), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_import(context, element, share, options, out) bind(c, name='ferry_buffer_import') result(status)
            import :: c_ptr, c_int, ferry_share, ferry_c_share_options
            type(c_ptr), value :: context, element
            type(ferry_share), intent(in) :: share
            type(ferry_c_share_options), intent(in) :: options
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_acquire_shared(buffer, stream) bind(c, name='ferry_buffer_acquire_shared') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: buffer, stream
            integer(c_int) :: status
        end function

        function ferry_c_buffer_release_shared(buffer, stream) bind(c, name='ferry_buffer_release_shared') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: buffer, stream
            integer(c_int) :: status
        end function

        function ferry_c_buffer_view(base, element, offset, count, out) bind(c, name='ferry_buffer_view') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: base, element
            integer(c_size_t), value :: offset, count
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_view_read_only(base, element, offset, count, out) bind(c, name='ferry_buffer_view_read_only') &
            result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: base, element
            integer(c_size_t), value :: offset, count
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_from_raw(raw, element, out) bind(c, name='ferry_buffer_from_raw') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: raw, element
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_retain(buffer) bind(c, name='ferry_buffer_retain') result(same)
            import :: c_ptr
            type(c_ptr), value :: buffer
            type(c_ptr) :: same
        end function

        subroutine ferry_c_buffer_destroy(buffer) bind(c, name='ferry_buffer_destroy')
            import :: c_ptr
            type(c_ptr), intent(inout) :: buffer
        end subroutine

        function ferry_c_buffer_count(buffer) bind(c, name='ferry_buffer_count') result(count)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: buffer
            integer(c_size_t) :: count
        end function

        function ferry_c_buffer_context(buffer) bind(c, name='ferry_buffer_context') result(context)
            import :: c_ptr
            type(c_ptr), value :: buffer
            type(c_ptr) :: context
        end function

        function ferry_c_buffer_is_current(buffer, place) bind(c, name='ferry_buffer_is_current') result(current)
            import :: c_ptr, c_int, c_bool
            type(c_ptr), value :: buffer
            integer(c_int), value :: place
            logical(c_bool) :: current
        end function

        function ferry_c_buffer_resize(buffer, count) bind(c, name='ferry_buffer_resize') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: buffer
            integer(c_size_t), value :: count
            integer(c_int) :: status
        end function

        function ferry_c_buffer_sync_to(buffer, offset, count, place, options) bind(c, name='ferry_buffer_sync_to') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: buffer, options
            integer(c_size_t), value :: offset, count
            integer(c_int), value :: place
            integer(c_int) :: status
        end function

        function ferry_c_buffer_open_host(buffer, element, access, offset, count, scope, out) &
                bind(c, name='ferry_buffer_open_host') result(status)
            import :: c_ptr, c_int, c_size_t, ferry_c_scope
            type(c_ptr), value :: buffer, element
            integer(c_int), value :: access
            integer(c_size_t), value :: offset, count
            type(ferry_c_scope), intent(inout) :: scope
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_open_device(buffer, element, access, offset, count, stream, scope, out) &
                bind(c, name='ferry_buffer_open_device') result(status)
            import :: c_ptr, c_int, c_size_t, ferry_c_scope
            type(c_ptr), value :: buffer, element, stream
            integer(c_int), value :: access
            integer(c_size_t), value :: offset, count
            type(ferry_c_scope), intent(inout) :: scope
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_buffer_copy_from(buffer, element, offset, count, source, options) &
                bind(c, name='ferry_buffer_copy_from') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: buffer, element, source, options
            integer(c_size_t), value :: offset, count
            integer(c_int) :: status
        end function

        function ferry_c_buffer_copy_to(buffer, element, offset, count, target, options) &
                bind(c, name='ferry_buffer_copy_to') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: buffer, element, target, options
            integer(c_size_t), value :: offset, count
            integer(c_int) :: status
        end function

        function ferry_c_buffer_copy(target, element, target_offset, source, source_offset, count, options) &
                bind(c, name='ferry_buffer_copy') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: target, element, source, options
            integer(c_size_t), value :: target_offset, source_offset, count
            integer(c_int) :: status
        end function

        function ferry_c_buffer_fill(buffer, element, offset, count, value, options) &
                bind(c, name='ferry_buffer_fill') result(status)
            import :: c_ptr, c_int, c_size_t
            type(c_ptr), value :: buffer, element, value, options
            integer(c_size_t), value :: offset, count
            integer(c_int) :: status
        end function

        function ferry_c_buffer_load(buffer, element, offset, count, path, file_offset, options) &
                bind(c, name='ferry_buffer_load') result(status)
            import :: c_ptr, c_int, c_int64_t, c_size_t, ferry_c_copy_options
            type(c_ptr), value :: buffer, element, path
            integer(c_size_t), value :: offset, count
            integer(c_int64_t), value :: file_offset
            type(ferry_c_copy_options), intent(in) :: options
            integer(c_int) :: status
        end function

        function ferry_c_buffer_store(buffer, element, offset, count, path, file_offset, options) &
                bind(c, name='ferry_buffer_store') result(status)
            import :: c_ptr, c_int, c_int64_t, c_size_t, ferry_c_copy_options
            type(c_ptr), value :: buffer, element, path
            integer(c_size_t), value :: offset, count
            integer(c_int64_t), value :: file_offset
            type(ferry_c_copy_options), intent(in) :: options
            integer(c_int) :: status
        end function

        function ferry_c_copy(regions, count, options) bind(c, name='ferry_copy') result(status)
            import :: c_int, c_size_t, ferry_copy_region, ferry_c_copy_options
            type(ferry_copy_region), intent(in) :: regions(*)
            integer(c_size_t), value :: count
            type(ferry_c_copy_options), intent(in) :: options
            integer(c_int) :: status
        end function

        function ferry_c_lease_open(buffer, element, options, out, out_pointer) bind(c, name='ferry_lease_open') result(status)
            import :: c_ptr, c_int, ferry_c_lease_options
            type(c_ptr), value :: buffer, element
            type(ferry_c_lease_options), intent(in) :: options
            type(c_ptr), intent(inout) :: out, out_pointer
            integer(c_int) :: status
        end function

        function ferry_c_lease_retain(lease) bind(c, name='ferry_lease_retain') result(same)
            import :: c_ptr
            type(c_ptr), value :: lease
            type(c_ptr) :: same
        end function

        function ferry_c_lease_close(lease) bind(c, name='ferry_lease_close') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: lease
            integer(c_int) :: status
        end function

        function ferry_c_lease_abandon(lease) bind(c, name='ferry_lease_abandon') result(status)
            import :: c_ptr, c_int
            type(c_ptr), value :: lease
            integer(c_int) :: status
        end function

        subroutine ferry_c_lease_destroy(lease) bind(c, name='ferry_lease_destroy')
            import :: c_ptr
            type(c_ptr), intent(inout) :: lease
        end subroutine

        function ferry_c_lease_is_open(lease) bind(c, name='ferry_lease_is_open') result(is_open)
            import :: c_ptr, c_bool
            type(c_ptr), value :: lease
            logical(c_bool) :: is_open
        end function

        function ferry_c_buffer_argument(buffer, element, offset, count) bind(c, name='ferry_buffer_argument') result(argument)
            import :: c_ptr, c_size_t, ferry_argument
            type(c_ptr), value :: buffer, element
            integer(c_size_t), value :: offset, count
            type(ferry_argument) :: argument
        end function

        function ferry_c_struct_value(value, bytes, alignment) bind(c, name='ferry_struct_value') result(argument)
            import :: c_ptr, c_size_t, ferry_argument
            type(c_ptr), value :: value
            integer(c_size_t), value :: bytes, alignment
            type(ferry_argument) :: argument
        end function

        function ferry_c_size_value(value) bind(c, name='ferry_size_value') result(argument)
            import :: c_size_t, ferry_argument
            integer(c_size_t), value :: value
            type(ferry_argument) :: argument
        end function

        function ferry_c_grid_for(items, threads) bind(c, name='ferry_grid_for') result(grid)
            import :: c_size_t, c_int32_t, ferry_c_grid
            integer(c_size_t), value :: items
            integer(c_int32_t), value :: threads
            type(ferry_c_grid) :: grid
        end function

        function ferry_c_kernel_create(context, source, out) bind(c, name='ferry_kernel_create') result(status)
            import :: c_ptr, c_int, ferry_c_kernel_source
            type(c_ptr), value :: context
            type(ferry_c_kernel_source), intent(in) :: source
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function ferry_c_kernel_launch(kernel, grid, stream, arguments, argument_count) &
                bind(c, name='ferry_kernel_launch') result(status)
            import :: c_ptr, c_int, c_size_t, ferry_c_grid, ferry_argument
            type(c_ptr), value :: kernel, stream
            type(ferry_c_grid), value :: grid
            type(ferry_argument), intent(in) :: arguments(*)
            integer(c_size_t), value :: argument_count
            integer(c_int) :: status
        end function

        subroutine ferry_c_kernel_destroy(kernel) bind(c, name='ferry_kernel_destroy')
            import :: c_ptr
            type(c_ptr), intent(inout) :: kernel
        end subroutine

        function ferry_c_call_array(call, element, index, out_count) bind(c, name='ferry_call_array') result(array)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: call, element
            integer(c_size_t), value :: index
            integer(c_size_t), intent(inout) :: out_count
            type(c_ptr) :: array
        end function

        function ferry_c_call_value(call, element, index, out_bytes) bind(c, name='ferry_call_value') result(value)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: call, element
            integer(c_size_t), value :: index
            integer(c_size_t), intent(inout) :: out_bytes
            type(c_ptr) :: value
        end function

        function ferry_c_call_size(call, index) bind(c, name='ferry_call_size') result(size)
            import :: c_ptr, c_size_t
            type(c_ptr), value :: call
            integer(c_size_t), value :: index
            integer(c_size_t) :: size
        end function
    end interface
end module

module ferry
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    use ferry_c
    implicit none
    private

    integer(c_int), parameter, public :: ferry_ok = 0, ferry_error_invalid_argument = 1, ferry_error_out_of_range = 2, &
        ferry_error_overflow = 3, ferry_error_out_of_memory = 4, ferry_error_conflict = 5, ferry_error_busy = 6, &
        ferry_error_wrong_type = 7, ferry_error_wrong_context = 8, ferry_error_invalid_state = 9, &
        ferry_error_unsupported = 10, ferry_error_no_device = 11, ferry_error_device = 12, ferry_error_device_lost = 13, &
        ferry_error_compile = 14, ferry_error_io = 15, ferry_error_cancelled = 16
    integer(c_int), parameter, public :: ferry_read = 1, ferry_update = 2, ferry_overwrite = 3
    integer(c_int), parameter, public :: ferry_convert_saturate = 1, ferry_convert_check = 2, ferry_convert_truncate = 3
    integer(c_int), parameter, public :: ferry_kind_float = 1, ferry_kind_bfloat = 2, ferry_kind_int = 3, &
        ferry_kind_uint = 4, ferry_kind_bool = 5, ferry_kind_complex = 6, ferry_kind_struct = 7
    integer(c_int), parameter, public :: ferry_place_host = 0
    ! As a count: up to the end.
    integer(c_size_t), parameter, public :: ferry_rest = -1_c_size_t

    public :: ferry_last_error, ferry_status_name, ferry_check
    public :: ferry_argument, ferry_parameter, ferry_copy_region, ferry_copy_side, ferry_copy, ferry_share
    public :: ferry_size_value, ferry_size_parameter, ferry_call_size

    ! A part of an array of planes, rows and columns, for launches of generated kernels: the first index of each, counted from 1, and
    ! how many. Without planes, the first elements keep these values.
    type, bind(c), public :: ferry_box
        integer(c_size_t) :: first(3) = 1, count(3) = ferry_rest
    end type

    ! An open scope, from the call that opens it to close(). A scope that is not closed stays open
    ! until its buffer is destroyed.
    type, public :: ferry_scope
        type(ferry_c_scope) :: raw
    contains
        procedure :: close => scope_close
        procedure :: abandon => scope_abandon
        procedure :: wait => scope_wait
    end type

    ! An owner of a lease: a scope that outlives the procedure that opened it. An assignment makes a
    ! further owner, and the last one closes the lease. It keeps the buffer and the context.
    type, public :: ferry_lease
        private
        type(c_ptr) :: owned = c_null_ptr
    contains
        procedure :: close => lease_close
        procedure :: abandon => lease_abandon
        procedure :: is_open => lease_is_open
        procedure :: adopt => lease_adopt
        procedure :: destroy => lease_destroy
        procedure :: raw => lease_raw
        procedure, private :: lease_assign
        generic :: assignment(=) => lease_assign
        final :: lease_finalize
    end type

    ! An owner of a context. An assignment makes a further owner, and the last one ends the context.
    type, public :: ferry_context
        private
        type(c_ptr) :: owned = c_null_ptr
    contains
        procedure :: create => context_create
        procedure :: share => context_share
        procedure :: retain => context_retain
        procedure :: destroy => context_destroy
        procedure :: raw => context_raw
        procedure :: place_count => context_place_count
        procedure :: stream => context_stream
        procedure, private :: context_assign
        generic :: assignment(=) => context_assign
        final :: context_finalize
    end type

    ! A stream. That of ferry_context%stream() is the context's, and is not destroyed.
    type, public :: ferry_stream
        private
        type(c_ptr) :: handle = c_null_ptr
        logical :: is_owned = .false.
    contains
        procedure :: create => stream_create
        procedure :: destroy => stream_destroy
        procedure :: synchronize => stream_synchronize
        procedure :: native => stream_native
        procedure :: raw => stream_raw
        procedure, private :: stream_assign
        generic :: assignment(=) => stream_assign
        final :: stream_finalize
    end type

    ! Work of a stream that is recorded once and launched many times: <ferry/graph.h>. It is not copied: an assignment gives an
    ! empty one.
    type, public :: ferry_graph
        private
        type(c_ptr) :: owned = c_null_ptr
    contains
        procedure :: begin => graph_begin
        procedure :: end => graph_end
        procedure :: launch => graph_launch
        procedure :: destroy => graph_destroy
        procedure, private :: graph_assign
        generic :: assignment(=) => graph_assign
        final :: graph_finalize
    end type

    ! A kernel. It is not copied: an assignment gives an empty one.
    type, public :: ferry_kernel
        private
        type(c_ptr) :: owned = c_null_ptr
    contains
        procedure :: create => kernel_create
        procedure :: launch => kernel_launch
        procedure :: destroy => kernel_destroy
        procedure, private :: kernel_assign
        generic :: assignment(=) => kernel_assign
        final :: kernel_finalize
    end type

contains

    ! Returns a text of C as a string.
    function text_of(pointer) result(text)
        type(c_ptr), intent(in) :: pointer
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: characters(:)
        integer(c_size_t) :: i

        call c_f_pointer(pointer, characters, [ferry_c_strlen(pointer)])
        allocate (character(len=size(characters)) :: text)
        do i = 1, size(characters, kind=c_size_t)
            text(i:i) = characters(i)
        end do
    end function

    ! Returns the message of this thread's last failing call.
    function ferry_last_error() result(text)
        character(len=:), allocatable :: text

        text = text_of(ferry_c_last_error())
    end function

    ! Returns the name of a status, such as FERRY_ERROR_BUSY.
    function ferry_status_name(status) result(text)
        integer(c_int), intent(in) :: status
        character(len=:), allocatable :: text

        text = text_of(ferry_c_status_name(status))
    end function

    ! Stores the status in `status`, or stops the program at a failure when `status` is absent.
    subroutine ferry_check(got, status)
        integer(c_int), intent(in) :: got
        integer(c_int), intent(out), optional :: status

        if (present(status)) then
            status = got
        else if (got /= ferry_ok) then
            write (error_unit, '(4a)') ferry_status_name(got), ': ', ferry_last_error()
            error stop 'a call of Ferry failed'
        end if
    end subroutine

    ! -- scopes --

    ! Ends the use: the pointer must not be used any more. A write becomes the newest value.
    subroutine scope_close(self, status)
        class(ferry_scope), intent(inout) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_scope_close(self%raw), status)
    end subroutine

    ! Ends the use and gives up what was written.
    subroutine scope_abandon(self, status)
        class(ferry_scope), intent(inout) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_scope_abandon(self%raw), status)
    end subroutine

    ! Blocks until the bytes of an open device scope are in place.
    subroutine scope_wait(self, status)
        class(ferry_scope), intent(inout) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_scope_wait(self%raw), status)
    end subroutine

    ! -- leases --

    ! Ends the use for all owners: a write becomes the newest value. The memory stays until the last
    ! owner ends.
    subroutine lease_close(self, status)
        class(ferry_lease), intent(in) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_lease_close(self%owned), status)
    end subroutine

    ! Ends the use for all owners and gives up what was written.
    subroutine lease_abandon(self, status)
        class(ferry_lease), intent(in) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_lease_abandon(self%owned), status)
    end subroutine

    ! Returns whether the memory may be used.
    function lease_is_open(self) result(is_open)
        class(ferry_lease), intent(in) :: self
        logical :: is_open

        is_open = ferry_c_lease_is_open(self%owned)
    end function

    ! Becomes the owner of a C ferry_lease, in place of its previous owner.
    subroutine lease_adopt(self, raw)
        class(ferry_lease), intent(inout) :: self
        type(c_ptr), intent(in) :: raw

        call self%destroy()
        self%owned = raw
    end subroutine

    ! Removes this owner. The last one closes the lease.
    subroutine lease_destroy(self)
        class(ferry_lease), intent(inout) :: self

        call ferry_c_lease_destroy(self%owned)
    end subroutine

    ! Returns the C handle, which stays this object's: for exports.
    function lease_raw(self) result(raw)
        class(ferry_lease), intent(in) :: self
        type(c_ptr) :: raw

        raw = self%owned
    end function

    ! Makes a further owner.
    subroutine lease_assign(self, other)
        class(ferry_lease), intent(inout) :: self
        class(ferry_lease), intent(in) :: other

        call self%adopt(ferry_c_lease_retain(other%owned))
    end subroutine

    ! Removes this owner.
    impure elemental subroutine lease_finalize(self)
        type(ferry_lease), intent(inout) :: self

        call self%destroy()
    end subroutine

    ! -- copies --

    ! Copies the regions in the order of the array, and blocks until all is done. `convert` is the
    ! policy for regions whose two elements differ.
    subroutine ferry_copy(regions, stream, convert, status)
        type(ferry_copy_region), intent(in), contiguous :: regions(:)
        class(ferry_stream), intent(in), optional :: stream
        integer(c_int), intent(in), optional :: convert
        integer(c_int), intent(out), optional :: status
        type(ferry_c_copy_options) :: options

        if (present(stream)) options%stream = stream%handle
        if (present(convert)) options%convert = convert
        call ferry_check(ferry_c_copy(regions, size(regions, kind=c_size_t), options), status)
    end subroutine

    ! -- contexts --

    ! Opens the devices of the list, such as 'emulated:2'; without one, those of FERRY_DEVICE. Each
    ! device pool holds at most device_bytes_limit bytes, if that is given.
    subroutine context_create(self, devices, device_bytes_limit, status)
        class(ferry_context), intent(inout) :: self
        character(len=*), intent(in), optional :: devices
        integer(c_size_t), intent(in), optional :: device_bytes_limit
        integer(c_int), intent(out), optional :: status
        type(ferry_c_context_options) :: options
        character(kind=c_char), allocatable, target :: list(:)
        integer :: i

        if (present(devices)) then
            allocate (list(len_trim(devices) + 1))
            do i = 1, len_trim(devices)
                list(i) = devices(i:i)
            end do
            list(len_trim(devices) + 1) = c_null_char
            options%devices = c_loc(list)
        end if
        if (present(device_bytes_limit)) options%device_bytes_limit = device_bytes_limit
        call self%destroy()
        call ferry_check(ferry_c_context_create(options, self%owned), status)
    end subroutine

    ! Becomes an owner of the context that the process shares.
    subroutine context_share(self, status)
        class(ferry_context), intent(inout) :: self
        integer(c_int), intent(out), optional :: status

        call self%destroy()
        call ferry_check(ferry_c_context_shared(self%owned), status)
    end subroutine

    ! Becomes a further owner of a C ferry_context.
    subroutine context_retain(self, raw)
        class(ferry_context), intent(inout) :: self
        type(c_ptr), intent(in) :: raw
        type(c_ptr) :: same

        same = ferry_c_context_retain(raw)
        call self%destroy()
        self%owned = same
    end subroutine

    ! Removes this owner. The last one ends the context.
    subroutine context_destroy(self)
        class(ferry_context), intent(inout) :: self

        call ferry_c_context_destroy(self%owned)
    end subroutine

    ! Returns the C handle, which stays this object's.
    function context_raw(self) result(raw)
        class(ferry_context), intent(in) :: self
        type(c_ptr) :: raw

        raw = self%owned
    end function

    ! Returns the number of devices, whose places are 1 to that number.
    function context_place_count(self) result(count)
        class(ferry_context), intent(in) :: self
        integer(c_int) :: count

        count = ferry_c_context_place_count(self%owned)
    end function

    ! Returns the default stream of a device, of the first one without `place`.
    function context_stream(self, place) result(stream)
        class(ferry_context), intent(in) :: self
        integer(c_int), intent(in), optional :: place
        type(ferry_stream) :: stream
        integer(c_int) :: at

        at = 1
        if (present(place)) at = place
        stream%handle = ferry_c_context_stream(self%owned, at)
    end function

    ! Makes a further owner.
    subroutine context_assign(self, other)
        class(ferry_context), intent(inout) :: self
        class(ferry_context), intent(in) :: other

        call self%retain(other%owned)
    end subroutine

    ! Removes this owner.
    impure elemental subroutine context_finalize(self)
        type(ferry_context), intent(inout) :: self

        call self%destroy()
    end subroutine

    ! -- streams --

    ! Creates a stream of the device at `place`.
    subroutine stream_create(self, context, place, status)
        class(ferry_stream), intent(inout) :: self
        class(ferry_context), intent(in) :: context
        integer(c_int), intent(in) :: place
        integer(c_int), intent(out), optional :: status
        integer(c_int) :: got

        call self%destroy()
        got = ferry_c_stream_create(context%owned, place, self%handle)
        self%is_owned = got == ferry_ok
        call ferry_check(got, status)
    end subroutine

    ! Ends a stream that create() made; that of a context stays.
    subroutine stream_destroy(self)
        class(ferry_stream), intent(inout) :: self

        if (self%is_owned) call ferry_c_stream_destroy(self%handle)
        self%handle = c_null_ptr
        self%is_owned = .false.
    end subroutine

    ! Blocks until all work of the stream has completed, and reports a failure of that work once.
    subroutine stream_synchronize(self, status)
        class(ferry_stream), intent(in) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_stream_synchronize(self%handle), status)
    end subroutine

    ! Returns the native handle, such as a cudaStream_t: for CUDA Fortran, OpenACC and libraries.
    function stream_native(self) result(native)
        class(ferry_stream), intent(in) :: self
        type(c_ptr) :: native

        native = ferry_c_stream_native(self%handle)
    end function

    ! Returns the C handle, which stays this object's.
    function stream_raw(self) result(raw)
        class(ferry_stream), intent(in) :: self
        type(c_ptr) :: raw

        raw = self%handle
    end function

    ! The copy borrows the stream.
    subroutine stream_assign(self, other)
        class(ferry_stream), intent(inout) :: self
        class(ferry_stream), intent(in) :: other
        type(c_ptr) :: handle

        handle = other%handle
        call self%destroy()
        self%handle = handle
    end subroutine

    ! Ends a stream that create() made.
    impure elemental subroutine stream_finalize(self)
        type(ferry_stream), intent(inout) :: self

        call self%destroy()
    end subroutine

    ! -- graphs --

    ! Begins to record what is queued on a stream of create(), instead of running it. `name` is for messages.
    subroutine graph_begin(self, stream, name, status)
        class(ferry_graph), intent(inout) :: self
        class(ferry_stream), intent(in) :: stream
        character(len=*), intent(in), optional :: name
        integer(c_int), intent(out), optional :: status
        type(ferry_c_graph_options) :: options
        character(len=:, kind=c_char), allocatable, target :: text

        if (present(name)) then
            text = name // c_null_char
            options%name = c_loc(text)
        end if
        call self%destroy()
        call ferry_check(ferry_c_graph_begin(stream%handle, options, self%owned), status)
    end subroutine

    ! Ends the recording. The graph can be launched now.
    subroutine graph_end(self, status)
        class(ferry_graph), intent(in) :: self
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_graph_end(self%owned), status)
    end subroutine

    ! Queues all recorded work on a stream of the same place, and does not wait for it.
    subroutine graph_launch(self, stream, status)
        class(ferry_graph), intent(in) :: self
        class(ferry_stream), intent(in) :: stream
        integer(c_int), intent(out), optional :: status

        call ferry_check(ferry_c_graph_launch(self%owned, stream%handle), status)
    end subroutine

    ! Ends the graph, after its launches.
    subroutine graph_destroy(self)
        class(ferry_graph), intent(inout) :: self

        call ferry_c_graph_destroy(self%owned)
    end subroutine

    ! Gives an empty graph.
    subroutine graph_assign(self, other)
        class(ferry_graph), intent(inout) :: self
        class(ferry_graph), intent(in) :: other

        if (c_associated(self%owned, other%owned)) return
        call self%destroy()
    end subroutine

    ! Ends the graph.
    impure elemental subroutine graph_finalize(self)
        type(ferry_graph), intent(inout) :: self

        call self%destroy()
    end subroutine

    ! -- kernels --

    ! Creates a kernel from source for devices, in CUDA C++ and in OpenCL C, from a host function, or from several of them.
    !
    ! `host_function` is c_funloc() of a bind(c) function (call, user) with two type(c_ptr), value
    ! arguments and an integer(c_int) status as its result: ferry_host_function of <ferry/kernel.h>.
    subroutine kernel_create(self, context, name, parameters, cuda_source, host_function, status, opencl_source)
        class(ferry_kernel), intent(inout) :: self
        class(ferry_context), intent(in) :: context
        character(len=*), intent(in) :: name
        type(ferry_parameter), intent(in), target, contiguous :: parameters(:)
        character(len=*), intent(in), optional :: cuda_source, opencl_source
        type(c_funptr), intent(in), optional :: host_function
        integer(c_int), intent(out), optional :: status
        type(ferry_c_kernel_source) :: source
        type(ferry_c_kernel_code), target :: codes(2)
        character(len=:, kind=c_char), allocatable, target :: entry_point, cuda, opencl

        entry_point = name // c_null_char
        source%name = c_loc(entry_point)
        if (present(cuda_source)) then
            cuda = cuda_source // c_null_char
            call add_code(ferry_c_code_cuda, c_loc(cuda))
        end if
        if (present(opencl_source)) then
            opencl = opencl_source // c_null_char
            call add_code(ferry_c_code_opencl, c_loc(opencl))
        end if
        source%codes = c_loc(codes)
        if (present(host_function)) source%host_function = host_function
        if (size(parameters) > 0) source%parameters = c_loc(parameters)
        source%parameter_count = size(parameters, kind=c_size_t)
        call self%destroy()
        call ferry_check(ferry_c_kernel_create(context%owned, source, self%owned), status)

    contains

        subroutine add_code(kind, text)
            integer(c_int), intent(in) :: kind
            type(c_ptr), intent(in) :: text

            source%code_count = source%code_count + 1
            codes(source%code_count)%kind = kind
            codes(source%code_count)%code = text
        end subroutine
    end subroutine

    ! Queues the kernel for `items` items, with `threads` threads in each block (256 without it).
    subroutine kernel_launch(self, stream, items, arguments, threads, status)
        class(ferry_kernel), intent(in) :: self
        class(ferry_stream), intent(in) :: stream
        integer(c_size_t), intent(in) :: items
        type(ferry_argument), intent(in), contiguous :: arguments(:)
        integer(c_int32_t), intent(in), optional :: threads
        integer(c_int), intent(out), optional :: status
        integer(c_int32_t) :: block_threads

        block_threads = 0
        if (present(threads)) block_threads = threads
        call ferry_check(ferry_c_kernel_launch(self%owned, ferry_c_grid_for(items, block_threads), stream%handle, arguments, &
            size(arguments, kind=c_size_t)), status)
    end subroutine

    ! Ends the kernel. Launches that are queued still run.
    subroutine kernel_destroy(self)
        class(ferry_kernel), intent(inout) :: self

        call ferry_c_kernel_destroy(self%owned)
    end subroutine

    ! Gives an empty kernel.
    subroutine kernel_assign(self, other)
        class(ferry_kernel), intent(inout) :: self
        class(ferry_kernel), intent(in) :: other

        if (c_associated(self%owned, other%owned)) return
        call self%destroy()
    end subroutine

    ! Ends the kernel.
    impure elemental subroutine kernel_finalize(self)
        type(ferry_kernel), intent(inout) :: self

        call self%destroy()
    end subroutine

    ! A count as an argument: size_t in CUDA source.
    function ferry_size_value(value) result(argument)
        integer(c_size_t), intent(in) :: value
        type(ferry_argument) :: argument

        argument = ferry_c_size_value(value)
    end function

    ! Returns the parameter of a size_t.
    function ferry_size_parameter() result(parameter)
        type(ferry_parameter) :: parameter

        parameter%element = ferry_c_size_element()
    end function

    ! In a host function: the count of argument `index`, counted from 1.
    function ferry_call_size(call, index) result(size)
        type(c_ptr), intent(in) :: call
        integer, intent(in) :: index
        integer(c_size_t) :: size

        size = ferry_c_call_size(call, int(index - 1, c_size_t))
    end function
end module
