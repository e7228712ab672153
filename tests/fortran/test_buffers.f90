! SPDX-License-Identifier: MIT
! Buffers, scopes, owners and kernels in Fortran, on the devices of FERRY_DEVICE. Prints TAP.

module checks
    use, intrinsic :: iso_c_binding
    use ferry
    implicit none
    integer, save :: cases = 0, failures = 0
contains
    subroutine expect(condition, what)
        logical, intent(in) :: condition
        character(len=*), intent(in) :: what

        cases = cases + 1
        if (condition) then
            write (*, '(a,i0,2a)') 'ok ', cases, ' - ', what
        else
            failures = failures + 1
            write (*, '(a,i0,2a)') 'not ok ', cases, ' - ', what
            write (*, '(2a)') '# ', ferry_last_error()
        end if
    end subroutine
end module

module host_functions
    use, intrinsic :: iso_c_binding
    use ferry
    use ferry_float_buffers
    use test_sample_buffers
    implicit none
contains
    ! v(3) of each sample grows by `factor` times its number, and by the id of a sample that is passed by value.
    function grow(call, user) bind(c) result(status)
        type(c_ptr), value :: call, user
        integer(c_int) :: status
        type(test_sample), pointer, contiguous :: samples(:)
        type(test_sample), pointer :: one
        real(c_float), pointer :: factor
        real(c_float), pointer, contiguous :: wrong(:)
        integer(c_size_t) :: i

        call test_sample_call_array(call, 1, samples)
        call test_sample_call_value(call, 2, one)
        call ferry_float_call_value(call, 3, factor)
        call ferry_float_call_array(call, 1, wrong)
        do i = 1, ferry_call_size(call, 4)
            samples(i)%v(3) = samples(i)%v(3) + factor * real(i, c_float) + real(one%id, c_float)
        end do
        status = ferry_ok
        if (associated(wrong) .or. c_associated(user)) status = ferry_error_wrong_type
    end function

    function fails(call, user) bind(c) result(status)
        type(c_ptr), value :: call, user
        integer(c_int) :: status

        status = ferry_error_cancelled
        if (c_associated(user) .or. .not. c_associated(call)) status = ferry_ok
    end function
end module

module tests
    use, intrinsic :: iso_c_binding
    use checks
    use host_functions
    use ferry_bool_buffers
    use ferry_complex_double_buffers
    use ferry_double_buffers
    use ferry_half_buffers
    implicit none
contains

    function counting(count) result(values)
        integer, intent(in) :: count
        real(c_double) :: values(count)
        integer :: i

        values = [(real(i, c_double), i=1, count)]
    end function

    ! What ferry.f90 declares is as large as what C declares.
    subroutine structs_have_sizes()
        use ferry_c
        type(ferry_c_scope) :: scope
        type(ferry_c_grid) :: grid
        type(ferry_argument) :: argument
        type(ferry_parameter) :: parameter
        type(ferry_c_field) :: field
        type(ferry_c_element) :: element
        type(ferry_c_kernel_source) :: kernel_source
        type(ferry_c_kernel_code) :: kernel_code
        type(ferry_c_context_options) :: context_options
        type(ferry_c_buffer_options) :: buffer_options
        type(ferry_c_lease_options) :: lease_options
        type(ferry_copy_side) :: side
        type(ferry_copy_region) :: region
        type(ferry_c_copy_options) :: copy_options
        type(ferry_c_share_options) :: share_options
        type(ferry_share) :: share
        integer(c_size_t) :: sizes(16)
        integer(c_int) :: i
        interface
            function test_size_of(number) bind(c) result(bytes)
                import :: c_int, c_size_t
                integer(c_int), value :: number
                integer(c_size_t) :: bytes
            end function
        end interface

        sizes = [c_sizeof(scope), c_sizeof(grid), c_sizeof(argument), c_sizeof(parameter), c_sizeof(field), c_sizeof(element), &
            c_sizeof(kernel_source), c_sizeof(context_options), c_sizeof(buffer_options), c_sizeof(lease_options), c_sizeof(side), &
            c_sizeof(region), c_sizeof(copy_options), c_sizeof(kernel_code), c_sizeof(share), c_sizeof(share_options)]
        call expect(all(sizes == [(test_size_of(i), i=1, 16)]), 'structs have the sizes of C')
    end subroutine

    subroutine buffers_live(context)
        type(ferry_context), intent(in) :: context
        type(ferry_double_buffer) :: a, b, empty
        type(ferry_float_buffer) :: other
        real(c_double) :: values(10)
        integer(c_int) :: status

        call a%create(context, 10_c_size_t)
        call a%copy_to(values)
        call expect(a%count() == 10 .and. all(values == 0) .and. empty%count() == 0, 'a new buffer reads as zero')
        call b%create_from(context, counting(10), name='heights', zero_on_release=.true.)
        call b%copy_to(values)
        call expect(all(values == counting(10)), 'create_from copies the values')
        a = b
        call expect(c_associated(a%raw(), b%raw()), 'an assignment makes another owner')
        call b%destroy()
        call expect(a%count() == 10 .and. b%count() == 0, 'the other owner keeps the buffer')
        a = a
        call expect(a%count() == 10, 'an assignment to itself keeps the buffer')
        call b%view(a, 4_c_size_t, 3_c_size_t)
        call b%fill(7.0_c_double)
        call a%copy_to(values(1:3), first=3_c_size_t)
        call expect(all(values(1:3) == [3.0_c_double, 7.0_c_double, 7.0_c_double]), 'a view is a part of its base')
        call b%view_read_only(a, 4_c_size_t, 3_c_size_t)
        call b%fill(8.0_c_double, status=status)
        call expect(status == ferry_error_invalid_argument, 'a read-only view is not written')
        call a%fill(9.0_c_double, first=4_c_size_t, count=1_c_size_t)
        call b%copy_to(values(1:3))
        call expect(all(values(1:3) == [9.0_c_double, 7.0_c_double, 7.0_c_double]), 'a read-only view shows what its base has')
        call b%view_read_only(a, 10_c_size_t, 2_c_size_t, status)
        call expect(status == ferry_error_out_of_range .and. b%count() == 3, 'a view past the end is refused')
        call other%retain(a%raw(), status)
        call expect(status == ferry_error_wrong_type .and. other%count() == 0, 'another element is refused')
        call b%destroy()
        call a%resize(12_c_size_t)
        call expect(a%count() == 12, 'resize changes the count')
        call a%copy(a, first=11_c_size_t, source_first=1_c_size_t, count=2_c_size_t)
        call a%copy_to(values(1:2), first=11_c_size_t)
        call expect(all(values(1:2) == counting(2)), 'copy moves a range')
        call a%copy_from(values(1:0))
        call a%copy_to(values, first=4_c_size_t, status=status)
        call expect(status == ferry_error_out_of_range, 'a range past the end is refused')
        call empty%resize(3_c_size_t, status)
        call expect(status == ferry_error_invalid_argument, 'an empty buffer is refused')
        a = empty
        call expect(a%count() == 0, 'an assignment of an empty buffer empties')
        call other%create(context, huge(1_c_size_t), status=status)
        call expect(status == ferry_error_overflow .and. len(ferry_last_error()) > 0, 'a failure leaves a message')
        call expect(ferry_status_name(status) == 'FERRY_ERROR_OVERFLOW', 'statuses have names')
    end subroutine

    ! Another context has other locks, as another process has; tests/process has real ones.
    subroutine memory_is_shared(context)
        type(ferry_context), intent(in) :: context
        type(ferry_context) :: other
        type(ferry_double_buffer) :: made, theirs, third
        type(ferry_float_buffer) :: wrong
        type(ferry_stream) :: stream
        type(ferry_share) :: share, none
        real(c_double) :: values(10)
        integer(c_int) :: status

        call other%create('host')
        call made%create_from(context, counting(10), name='steps', shared_at=ferry_place_host)
        call made%export(share)
        call theirs%import(other, share, name='theirs')
        call theirs%acquire_shared(status=status)
        call expect(status == ferry_error_busy .and. index(ferry_last_error(), '"theirs"') > 0, 'another context has the memory')
        call made%release_shared()
        call made%fill(1.0_c_double, status=status)
        call expect(status == ferry_error_invalid_state, 'memory that was released is not used')
        stream = other%stream()
        call theirs%acquire_shared(stream)
        call theirs%copy_to(values)
        call expect(theirs%count() == 10 .and. all(values == counting(10)), 'an import shows the values')
        call theirs%fill(3.0_c_double)
        call theirs%release_shared(stream)
        call made%acquire_shared()
        call made%copy_to(values)
        call expect(all(values == 3), 'its changes come back')
        call made%release_shared()
        call third%import(context, share, read_only=.true., place=ferry_place_host)
        call third%acquire_shared()
        call third%fill(4.0_c_double, status=status)
        call expect(status == ferry_error_invalid_argument, 'a read-only import is not written')
        call third%release_shared()
        call wrong%import(other, share, status=status)
        call expect(status == ferry_error_wrong_type .and. wrong%count() == 0, 'an import of another element is refused')
        call wrong%import(other, none, status=status)
        call expect(status == ferry_error_invalid_argument, 'a handle that finds no memory is refused')
        call third%create(context, 1_c_size_t)
        call third%export(none, status)
        call expect(status == ferry_error_invalid_state, 'memory that is not shared is not exported')
        call third%create(context, 1_c_size_t, shared_at=99_c_int, status=status)
        call expect(status == ferry_error_invalid_argument, 'memory is not shared at a place that does not exist')
    end subroutine

    subroutine pointers_have_ranks(context)
        type(ferry_context), intent(in) :: context
        type(ferry_double_buffer) :: buffer
        type(ferry_scope) :: scope
        real(c_double), pointer, contiguous :: p1(:), p2(:, :), p3(:, :, :), p4(:, :, :, :)
        integer(c_int) :: status
        integer :: i, j

        call buffer%create(context, 24_c_size_t)
        call buffer%overwrite_host([4, 6], scope, p2)
        call expect(all(shape(p2) == [4, 6]), 'rank 2 has its shape')
        do j = 1, 6
            do i = 1, 4
                p2(i, j) = 10 * i + j
            end do
        end do
        call scope%close()
        call buffer%read_host(scope, p1)
        call expect(size(p1) == 24 .and. p1(1) == 11 .and. p1(2) == 21 .and. p1(5) == 12, 'the first index runs fastest')
        call buffer%update_host([4, 6], scope, p2, status)
        call expect(status == ferry_error_busy .and. .not. associated(p2), 'a write beside a read is refused')
        call scope%close()
        call buffer%update_host([2, 3, 4], scope, p3)
        p3(2, 3, 4) = -1
        call scope%close()
        call buffer%read_host([1, 2, 3, 4], scope, p4)
        call expect(p4(1, 2, 3, 4) == -1 .and. p4(1, 1, 1, 1) == 11, 'rank 4 reads what rank 3 wrote')
        call scope%close()
        call scope%close()
        call buffer%read_host([5, 5], scope, p2, status)
        call expect(status == ferry_error_out_of_range, 'a shape of another size is refused')
        call buffer%read_host([-4, -6], scope, p2, status)
        call expect(status == ferry_error_out_of_range, 'a negative shape is refused')
        call expect(index(ferry_last_error(), ': -') > 0, 'a negative number is shown as one')
        call buffer%update_host(scope, p1, first=23_c_size_t)
        call expect(size(p1) == 2 .and. p1(2) == -1, 'a range ends with the buffer')
        p1 = 5
        call scope%close()
        call buffer%read_host(scope, p1, first=22_c_size_t, count=2_c_size_t)
        call expect(size(p1) == 2 .and. p1(2) == 5 .and. p1(1) /= 5, 'a range has a first element and a count')
        call scope%close()
        call buffer%resize(0_c_size_t)
        call buffer%read_host([0, 6], scope, p2)
        call expect(size(p2) == 0, 'no elements are no error')
        call scope%close()
    end subroutine

    subroutine places_are_kept(context)
        type(ferry_context), intent(in) :: context
        type(ferry_double_buffer) :: buffer
        type(ferry_stream) :: stream, same
        type(ferry_scope) :: scope, second
        real(c_double), pointer, contiguous :: values(:)
        real(c_double) :: got(10)
        type(c_ptr) :: address
        integer(c_int) :: status

        call buffer%create_from(context, counting(10))
        call buffer%sync_to(1)
        call expect(buffer%is_current(1) .and. buffer%is_current(0), 'sync_to makes a place current')
        call buffer%update_host(scope, values)
        values = -1
        call scope%abandon()
        call buffer%copy_to(got)
        call expect(is_coherent() .or. all(got == counting(10)), 'an abandoned write leaves other places as they were')
        call stream%create(context, 1)
        call expect(c_associated(stream%raw()), 'a stream is made')
        call buffer%read_device(stream, scope, address, first=3_c_size_t)
        call scope%wait()
        call expect(c_associated(address), 'a device scope has an address')
        call buffer%overwrite_host(second, values, status=status)
        call expect(status == ferry_error_busy, 'a host write beside a device read is refused')
        call scope%close()
        call buffer%update_device(context%stream(), scope, address)
        call scope%close()
        call buffer%overwrite_device(stream, scope, address, first=2_c_size_t, count=1_c_size_t)
        call scope%close()
        same = stream
        call same%synchronize()
        call same%destroy()
        call stream%synchronize(status)
        call expect(status == ferry_ok .and. context%place_count() >= 1, 'a copy of a stream borrows it')
        call stream%create(context, 99, status)
        call expect(status == ferry_error_invalid_argument, 'an unknown place is refused')
        call stream%synchronize(status)
        call expect(status == ferry_error_invalid_argument, 'the failed stream is empty')
    end subroutine

    ! Everything that a procedure declares ends with it, in whatever order the compiler chooses.
    subroutine make_and_leave(shared)
        type(ferry_context), intent(in) :: shared
        type(ferry_double_buffer) :: a, b
        type(ferry_context) :: own, copied
        type(ferry_double_buffer), allocatable :: many(:)

        call own%create('emulated:2')
        copied = own
        copied = shared
        call a%create(own, 100_c_size_t)
        call b%create(copied, 100_c_size_t, name='left behind')
        allocate (many(3))
        call many(2)%create(copied, 5_c_size_t, name='in an array')
        call a%fill(1.0_c_double)
    end subroutine

    subroutine owners_end(context)
        type(ferry_context), intent(in) :: context
        type(ferry_context) :: process, again
        integer(c_int) :: status
        interface
            function ferry_context_find(context, name, out) bind(c) result(status)
                import :: c_ptr, c_char, c_int
                type(c_ptr), value :: context
                character(kind=c_char), intent(in) :: name(*)
                type(c_ptr), intent(inout) :: out
                integer(c_int) :: status
            end function
        end interface
        type(c_ptr) :: found

        call make_and_leave(context)
        found = c_null_ptr
        call expect(ferry_context_find(context%raw(), 'left behind' // c_null_char, found) /= ferry_ok, &
            'a buffer ends with its procedure')
        call expect(ferry_context_find(context%raw(), 'in an array' // c_null_char, found) /= ferry_ok, &
            'an allocatable array of buffers ends with its procedure')
        call process%share()
        call again%share()
        call expect(c_associated(process%raw(), again%raw()), 'the process shares a context')
        call again%create('no such device', status=status)
        call expect(status /= ferry_ok .and. .not. c_associated(again%raw()), 'an unknown device is refused')
    end subroutine

    subroutine elements_have_types(context)
        type(ferry_context), intent(in) :: context
        type(test_sample_buffer) :: samples
        type(ferry_bool_buffer) :: flags
        type(ferry_complex_double_buffer) :: numbers
        type(ferry_half_buffer) :: halves
        type(ferry_scope) :: scope
        type(test_sample), pointer, contiguous :: all_samples(:)
        logical(c_bool) :: three(3)
        complex(c_double_complex), pointer, contiguous :: values(:)

        call samples%create(context, 5_c_size_t)
        call samples%fill(test_sample(id=7, v=[1.0, 2.0, 3.0]), first=3_c_size_t, count=1_c_size_t)
        call samples%read_host(scope, all_samples)
        call expect(all_samples(3)%id == 7 .and. all_samples(3)%v(3) == 3.0 .and. all_samples(4)%id == 0, &
            'a struct with an array is a derived type')
        call expect(c_sizeof(all_samples(1)) == 16, 'it has the size of the C struct')
        call scope%close()
        call flags%create(context, 3_c_size_t)
        call flags%fill(.true._c_bool, first=2_c_size_t)
        call flags%copy_to(three)
        call expect(logical(.not. three(1)) .and. all(logical(three(2:3))), 'bool is logical')
        call numbers%create(context, 2_c_size_t)
        call numbers%update_host(scope, values)
        values(2) = (1.0_c_double, 2.0_c_double)
        call expect(aimag(values(2)) == 2, 'complex numbers are complex')
        call scope%close()
        call halves%create(context, 1_c_size_t)
        call halves%fill(int(z'3c00', c_int16_t))
        call expect(halves%count() == 1, 'half is its bits')
    end subroutine

    ! A lease of a buffer and a context that end with this procedure.
    subroutine lease_and_leave(lease, pointer)
        type(ferry_lease), intent(inout) :: lease
        real(c_double), pointer, contiguous, intent(out) :: pointer(:)
        type(ferry_context) :: own
        type(ferry_double_buffer) :: buffer

        call own%create('emulated')
        call buffer%create_from(own, counting(6))
        call buffer%lease_read(lease, pointer)
    end subroutine

    subroutine leases_outlive(context)
        type(ferry_context), intent(in) :: context
        type(ferry_double_buffer) :: buffer
        type(ferry_lease) :: lease, copied, empty
        type(ferry_scope) :: scope
        type(ferry_stream) :: stream
        real(c_double), pointer, contiguous :: values(:), others(:), matrix(:, :)
        real(c_double) :: got(10)
        type(c_ptr) :: address
        integer(c_int) :: status

        call lease_and_leave(lease, values)
        call expect(lease%is_open() .and. all(values == counting(6)), 'a lease keeps its buffer and its context')
        copied = lease
        call lease%destroy()
        call expect(copied%is_open() .and. .not. lease%is_open() .and. values(6) == 6, 'the last owner ends a lease')
        call copied%destroy()

        call buffer%create_from(context, counting(10))
        call buffer%lease_update(lease, values, first=4_c_size_t, count=6_c_size_t, label='tests of Fortran')
        call expect(size(values) == 6 .and. values(1) == 4, 'a lease has a range')
        matrix(1:2, 1:3) => values
        matrix(2, 3) = -1
        call buffer%read_host(scope, others, status=status)
        call expect(status == ferry_error_busy .and. index(ferry_last_error(), 'tests of Fortran') > 0, &
            'a lease is named by its label')
        copied = lease
        call copied%close()
        call lease%close()
        call expect(.not. lease%is_open(), 'a close is for all owners')
        call buffer%copy_to(got)
        call expect(got(9) == -1 .and. got(10) == 10, 'a closed lease has written')
        call buffer%lease_read(lease, values, first=9_c_size_t, count=0_c_size_t)
        call expect(size(values) == 2, 'a count of 0 is the rest')
        call buffer%lease_overwrite(copied, others, first=9_c_size_t, count=3_c_size_t, status=status)
        call expect(status == ferry_error_out_of_range .and. .not. associated(others) .and. .not. copied%is_open(), &
            'a lease past the end is refused')
        lease = empty
        call expect(.not. lease%is_open(), 'an assignment of an empty lease empties')
        call lease%close(status)
        call expect(status == ferry_error_invalid_argument, 'an empty lease is refused')

        call buffer%sync_to(1)
        call buffer%lease_overwrite(lease, values)
        values = -5
        call lease%abandon()
        call lease%destroy()
        call buffer%copy_to(got)
        call expect(is_coherent() .or. got(9) == -1, 'an abandoned lease leaves other places as they were')

        call stream%create(context, 1)
        call buffer%lease_update_device(1, lease, address, stream, first=3_c_size_t, count=2_c_size_t)
        call expect(c_associated(address) .and. buffer%is_current(1), 'a lease of a device has an address')
        call buffer%read_host(scope, others, status=status)
        call expect(status == ferry_error_busy, 'a device lease is in use')
        call lease%destroy()
        call buffer%lease_read_device(1, lease, address)
        call expect(c_associated(address), 'a lease of a device needs no stream')
        call buffer%lease_overwrite_device(99, copied, address, status=status)
        call expect(status == ferry_error_invalid_argument .and. .not. c_associated(address), &
            'a lease at an unknown place is refused')
    end subroutine

    function is_coherent() result(coherent)
        logical :: coherent
        character(len=16) :: device

        call get_environment_variable('FERRY_DEVICE', device)
        coherent = device == 'host' ! which has no other bytes to keep
    end function

    subroutine files_hold_elements(context)
        type(ferry_context), intent(in) :: context
        type(ferry_double_buffer) :: a, b
        real(c_double) :: got(4), written(5)
        character(len=64) :: device, path
        integer(c_int) :: status
        integer(c_int64_t) :: clock
        integer :: unit, bytes

        call system_clock(clock)
        call get_environment_variable('FERRY_DEVICE', device)
        write (path, '(3a,i0)') 'test_fortran_', trim(device), '_', clock
        call a%create_from(context, counting(4))
        call a%sync_to(1)
        call a%store(path)
        call a%store(path, first=3_c_size_t, count=2_c_size_t, file_offset=24_c_int64_t)
        open (newunit=unit, file=path, access='stream', form='unformatted', status='old', action='read')
        inquire (unit, size=bytes)
        read (unit) written
        close (unit)
        call expect(bytes == 40 .and. all(written == [1, 2, 3, 3, 4]), 'a file holds the elements that were stored')
        call a%store(path, count=1_c_size_t, file_offset=8_c_int64_t, keep_rest=.true.)
        call b%create(context, 4_c_size_t)
        call b%load(path, first=2_c_size_t, count=3_c_size_t, file_offset=8_c_int64_t)
        call b%copy_to(got)
        call expect(all(got == [0, 1, 3, 3]), 'a range is loaded, and the rest of a file is kept')
        call a%store(path, count=1_c_size_t)
        call b%load(path, status=status)
        call expect(status == ferry_error_io .and. index(ferry_last_error(), trim(path)) > 0, 'a short file is refused by its name')
        call b%load(path, first=4_c_size_t)
        call b%copy_to(got)
        call expect(all(got == [0, 1, 3, 1]), 'a store cuts the file off')
        open (newunit=unit, file=path, status='old')
        close (unit, status='delete')
        call b%load(path, status=status)
        call expect(status == ferry_error_io, 'a file that is not there is refused')
        call b%load(path, first=6_c_size_t, status=status)
        call expect(status == ferry_error_out_of_range, 'a range past the end is loaded from nowhere')
    end subroutine

    subroutine regions_have_rows(context)
        type(ferry_context), intent(in) :: context
        type(ferry_double_buffer) :: a, b
        type(ferry_float_buffer) :: narrow
        type(ferry_copy_region) :: regions(3)
        type(ferry_stream) :: stream
        real(c_double), target :: plate(4, 6), corner(2, 3)
        real(c_double), pointer, contiguous :: cells(:)
        real(c_float) :: short(6)
        integer(c_int) :: status
        integer :: i

        call a%create_from(context, counting(24)) ! columns of 4
        call b%create(context, 24_c_size_t)
        plate = 0
        corner = reshape([(100.0_c_double + i, i=1, 6)], [2, 3])
        ! Elements (2:3, 3:5) to (1:2, 1:3) of another buffer, and from there to a part of an array; before that a fill from an array.
        cells(1:6) => corner
        regions(1) = a%region_from(cells, first=10_c_size_t)
        regions(1)%count = 2
        regions(1)%rows = 3
        regions(1)%target%row_pitch = 4
        regions(2) = b%region(a, source_first=10_c_size_t, count=2_c_size_t)
        regions(2)%rows = 3
        regions(2)%source%row_pitch = 4
        regions(2)%target%row_pitch = 4
        cells(1:24) => plate
        regions(3) = b%region_to(cells)
        call stream%create(context, 1)
        call ferry_copy(regions, stream)
        call expect(all(plate(1:2, 1:3) == corner) .and. sum(plate) == sum(corner), 'regions have rows and pitches')
        call a%copy_to(cells)
        call expect(all(plate(2:3, 3:5) == corner) .and. plate(1, 3) == 9 .and. plate(4, 5) == 20, 'they leave what is between')
        regions(3) = b%region_to(cells(1:0), first=25_c_size_t)
        call ferry_copy(regions(3:3))
        call ferry_copy(regions(1:0), stream)
        call narrow%create(context, 6_c_size_t)
        regions(1) = b%region(b, count=6_c_size_t)
        regions(1)%target%buffer = narrow%raw()
        regions(1)%target%element = ferry_float_element()
        call ferry_copy(regions(1:1), status=status)
        call expect(status == ferry_error_wrong_type, 'a region of two elements needs a policy')
        call ferry_copy(regions(1:1), convert=ferry_convert_saturate)
        call narrow%copy_to(short)
        call expect(all(short == [101.0, 102.0, 0.0, 0.0, 103.0, 104.0]), 'a region is converted')
        regions(2)%rows = 7
        call ferry_copy(regions(2:2), status=status)
        call expect(status == ferry_error_out_of_range, 'a region past the end is refused')
    end subroutine

    subroutine kernels_run(context)
        type(ferry_context), intent(in) :: context
        type(ferry_kernel) :: kernel, copied, failing
        type(test_sample_buffer) :: samples
        type(ferry_stream) :: stream, own
        type(ferry_graph) :: graph, second
        type(ferry_scope) :: scope
        type(test_sample), pointer, contiguous :: p(:)
        type(c_funptr) :: function
        integer(c_int) :: status

        function = c_funloc(grow)
        call kernel%create(context, 'grow', [test_sample_parameter(ferry_update), test_sample_parameter(), &
            ferry_float_parameter(), ferry_size_parameter()], host_function=function)
        call samples%create(context, 10_c_size_t)
        stream = context%stream()
        call kernel%launch(stream, 10_c_size_t, [samples%argument(), test_sample_value(test_sample(id=100, v=0.0)), &
            ferry_float_value(2.0), ferry_size_value(10_c_size_t)])
        call kernel%launch(stream, 2_c_size_t, [samples%argument(first=9_c_size_t), &
            test_sample_value(test_sample(id=0, v=0.0)), ferry_float_value(1.0), ferry_size_value(2_c_size_t)], threads=32)
        call samples%read_host(scope, p)
        call expect(p(1)%v(3) == 102 .and. p(8)%v(3) == 116 .and. p(9)%v(3) == 119 .and. p(10)%v(3) == 122, &
            'a kernel runs on the host with a struct and values')
        call scope%close()
        call own%create(context, 1)
        call graph%begin(own, name='step')
        call kernel%launch(own, 10_c_size_t, [samples%argument(), test_sample_value(test_sample(id=1, v=0.0)), &
            ferry_float_value(0.0), ferry_size_value(10_c_size_t)])
        call own%synchronize(status)
        call expect(status == ferry_error_unsupported .and. index(ferry_last_error(), 'graph "step"') > 0, &
            'a graph refuses what it cannot contain')
        call graph%end()
        call graph%launch(stream)
        call graph%launch(own)
        call samples%read_host(scope, p)
        call expect(p(1)%v(3) == 104 .and. p(10)%v(3) == 124, 'a graph repeats a launch')
        call scope%close()
        second = graph
        call second%launch(own, status)
        call expect(status == ferry_error_invalid_argument, 'a graph is not copied')
        call graph%end(status)
        call expect(status == ferry_error_invalid_state, 'a recording ends once')
        call graph%destroy()
        call kernel%launch(stream, 1_c_size_t, [samples%argument()], status=status)
        call expect(status == ferry_error_invalid_argument, 'a missing argument is refused')
        copied = kernel
        call copied%launch(stream, 1_c_size_t, [samples%argument()], status=status)
        call expect(status == ferry_error_invalid_argument, 'a kernel is not copied')
        kernel = kernel
        call kernel%create(context, 'nothing', [test_sample_parameter(ferry_update)], status=status)
        call expect(status == ferry_error_invalid_argument, 'a kernel without code is refused')
        call kernel%create(context, 'grow', [test_sample_parameter(ferry_update)], opencl_source='__kernel void grow(void *x) {}')
        call kernel%launch(stream, 1_c_size_t, [samples%argument()], status=status)
        call expect(status == ferry_error_unsupported .and. index(ferry_last_error(), 'it has OpenCL C source only') > 0, &
            'a kernel in OpenCL C is created')
        function = c_funloc(fails)
        call failing%create(context, 'fails', [test_sample_parameter(ferry_overwrite)], host_function=function)
        call failing%launch(stream, 10_c_size_t, [samples%argument()])
        call samples%read_host(scope, p, status=status)
        call expect(status == ferry_error_cancelled, 'a host function fails late')
        call stream%synchronize(status)
    end subroutine
end module

program test_buffers
    use tests
    implicit none
    type(ferry_context), allocatable :: context
    character(len=16) :: device

    allocate (context)
    call context%create()
    call structs_have_sizes()
    call buffers_live(context)
    call memory_is_shared(context)
    call pointers_have_ranks(context)
    call places_are_kept(context)
    call owners_end(context)
    call elements_have_types(context)
    call leases_outlive(context)
    call files_hold_elements(context)
    call regions_have_rows(context)
    call get_environment_variable('FERRY_DEVICE', device)
    if (device /= 'cuda') call kernels_run(context) ! CUDA has no host functions
    deallocate (context)
    write (*, '(a,i0)') '1..', cases
    if (failures > 0) error stop 'some cases failed'
end program
