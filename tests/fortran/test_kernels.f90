! SPDX-License-Identifier: MIT
! Typed launches of generated kernels in Fortran, on the devices of FERRY_DEVICE: their results equal those of loops. Prints TAP.

module launches
    use, intrinsic :: iso_c_binding
    use ferry
    use ferry_double_buffers
    use ferry_int_buffers
    use test_sample_buffers
    use plate_kernels_launches
    implicit none
    integer, save :: cases = 0, failures = 0
contains
    subroutine expect(condition, what)
        logical, intent(in) :: condition
        character(len=*), intent(in) :: what

        cases = cases + 1
        if (.not. condition) failures = failures + 1
        if (condition) then
            write (*, '(a,i0,2a)') 'ok ', cases, ' - ', what
        else
            write (*, '(a,i0,2a)') 'not ok ', cases, ' - ', what
            write (*, '(2a)') '# ', ferry_last_error()
        end if
    end subroutine

    pure function boxed(numbers) result(sizes)
        integer, intent(in) :: numbers(3)
        integer(c_size_t) :: sizes(3)

        sizes = int(numbers, c_size_t)
    end function

    ! Returns the elements of a buffer.
    function values(buffer) result(found)
        type(ferry_double_buffer), intent(in) :: buffer
        real(c_double), allocatable :: found(:)
        type(ferry_scope) :: scope
        real(c_double), pointer, contiguous :: p(:)

        call buffer%read_host(scope, p)
        found = p
        call scope%close()
    end function

    subroutine maps_and_results(context)
        type(ferry_context), intent(in) :: context
        type(plate_kernels) :: kernels, other
        type(ferry_stream) :: stream
        type(ferry_double_buffer) :: x, y, alpha
        type(ferry_int_buffer) :: at
        type(test_sample_buffer) :: samples
        type(test_sample) :: one
        type(test_sample), pointer, contiguous :: s(:)
        type(ferry_scope) :: scope
        type(plate_advance_results) :: results
        real(c_double) :: dot
        integer(c_int) :: status
        integer(c_int64_t) :: i

        call kernels%create(context)
        stream = context%stream(1)
        call x%create_from(context, [1d0, 2d0, 3d0])
        call y%create_from(context, [4d0, 5d0, 6d0])
        call kernels%axpy(stream, 2d0, x, y)
        call expect(all(values(y) == [6d0, 9d0, 12d0]), 'a map changes an array')
        call kernels%dot(stream, x, y, dot)
        call expect(dot == 60, 'a reduction returns a number')
        call alpha%create(context, 1_c_size_t)
        call kernels%dot_into(stream, x, x, alpha)
        call kernels%advance(stream, alpha, x, results)
        call expect(all(values(x) == [15d0, 16d0, 17d0]), 'a value stays on the device')
        call expect(results%rr == 225 + 256 + 289 .and. results%most == 17 .and. results%many == 3, 'results of one launch')
        call at%create_from(context, [2_c_int, 0_c_int, 1_c_int])
        call kernels%gather(stream, x, at, y)
        call expect(all(values(y) == [20d0, 18d0, 19d0]), 'a whole array is indexed freely')
        call kernels%numbers(2_c_size_t, stream, y, 10_c_int)
        call expect(all(values(y) == [12d0, 13d0, 19d0]), 'a launch with a count')
        call kernels%dot(stream, x, alpha, dot, status=status)
        call expect(status == ferry_error_out_of_range, 'arrays of other counts are refused')
        call kernels%gather(stream, x, at, x, status=status)
        call expect(status == ferry_error_invalid_argument, 'a whole array that is written is refused')
        call samples%create(context, 2_c_size_t)
        one%id = 7
        call kernels%mark(stream, samples, one)
        call samples%read_host(scope, s)
        call expect(all(s%id == 7), 'structs are passed and changed')
        call scope%close()
        call other%dot(stream, x, x, dot, status=status)
        call expect(status == ferry_error_invalid_argument, 'kernels that were not created')
        other = kernels
        call other%dot(stream, x, x, dot, status=status)
        call expect(status == ferry_error_invalid_argument, 'an assignment gives an empty variable')
        call large(context, kernels, [(real(mod(i, 17_c_int64_t), c_double), i = 1, 100000)])
    end subroutine

    ! All threads of the host.
    subroutine large(context, kernels, numbers)
        type(ferry_context), intent(in) :: context
        type(plate_kernels), intent(in) :: kernels
        real(c_double), intent(in), contiguous :: numbers(:)
        type(ferry_double_buffer) :: x
        real(c_double) :: dot

        call x%create_from(context, numbers)
        call kernels%dot(context%stream(1), x, x, dot)
        call expect(dot == sum(numbers**2), 'a large reduction of whole numbers')
    end subroutine

    subroutine dimensions_and_boxes(context)
        type(ferry_context), intent(in) :: context
        type(plate_kernels) :: kernels
        type(ferry_double_buffer) :: now, next
        type(ferry_int_buffer) :: cube
        type(ferry_scope) :: scope
        type(plate_fill_results) :: results
        integer, parameter :: rows = 5, columns = 7
        integer(c_size_t), parameter :: r = rows, c = columns
        real(c_double) :: plate(columns, rows), wanted(columns, rows), heat
        integer(c_int), pointer, contiguous :: cells(:, :, :)
        integer(c_int) :: status
        integer :: i, j

        call kernels%create(context)
        plate = reshape([(real(mod(i * i, 11), c_double) / 3, i = 1, rows * columns)], [columns, rows])
        wanted = plate
        do j = 2, rows - 1
            do i = 2, columns - 1
                wanted(i, j) = plate(i, j) + 0.1d0 * ((plate(i, j - 1) + plate(i, j + 1)) + (plate(i - 1, j) + plate(i + 1, j)) &
                    - 4 * plate(i, j))
            end do
        end do
        call now%create_from(context, reshape(plate, [rows * columns]))
        call next%create_from(context, reshape(plate, [rows * columns]))
        call kernels%step(r, c, context%stream(1), now, 0.1d0, next)
        call expect(all(values(next) == reshape(wanted, [rows * columns])), 'a stencil computes the cells with neighbours')
        call next%fill(0d0)
        call kernels%step(r, c, context%stream(1), now, 0.1d0, next, box=ferry_box(boxed([1, 3, 2]), boxed([1, 2, 3])))
        wanted(:, [1, 2, 5]) = 0
        wanted([1, 5, 6, 7], :) = 0
        call expect(all(values(next) == reshape(wanted, [rows * columns])), 'a box says which, counted from 1')
        call kernels%heat(r, c, context%stream(1), next, heat, box=ferry_box(boxed([1, 3, 3]), boxed([1, 1, 2])))
        call expect(heat == 0 + wanted(3, 3) + wanted(4, 3), 'a reduction over a box')
        call kernels%step(r, c, context%stream(1), now, 0.1d0, next, box=ferry_box(first=boxed([1, 1, 2])), status=status)
        call expect(status == ferry_error_out_of_range, 'a box without neighbours is refused')
        call cube%create(context, 24_c_size_t)
        call kernels%fill(2_c_size_t, 3_c_size_t, 4_c_size_t, context%stream(1), cube, results, &
            box=ferry_box(first=boxed([2, 1, 1])))
        call cube%read_host([4, 3, 2], scope, cells)
        call expect(all(cells(:, :, 1) == 0) .and. cells(4, 3, 2) == 123 .and. results%all == sum(cells), &
            'planes, rows and columns')
        call scope%close()
    end subroutine
end module

program test_kernels
    use launches
    implicit none
    type(ferry_context), allocatable :: context

    allocate (context)
    call context%create()
    call maps_and_results(context)
    call dimensions_and_boxes(context)
    deallocate (context)
    write (*, '(a,i0)') '1..', cases
    if (failures > 0) error stop 'some cases failed'
end program
