! SPDX-License-Identifier: MIT
!
! Heat spreads over a plate, in Fortran, on the best device. The field is a rank-2 array on the host
! and a CUDA array on the device, and the program contains no copy: the first launch copies the field
! to the device, and opening the pointer at the end copies it back. FERRY_DEVICE=host needs no GPU.

module diffusion_kernel
    use, intrinsic :: iso_c_binding
    use ferry
    use ferry_double_buffers
    implicit none
    integer, parameter :: width = 128, height = 96
    character(len=*), parameter :: n = new_line('n')
    character(len=*), parameter :: cuda_source = &
        'extern "C" __global__ void spread(const double *old, double *next, size_t width, size_t height)' // n // &
        '{' // n // &
        '    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x, x = at % width, y = at / width;' // n // &
        '    if (y >= height)' // n // &
        '        return;' // n // &
        '    bool edge = x == 0 || y == 0 || x == width - 1 || y == height - 1;' // n // &
        '    next[at] = edge ? old[at]' // n // &
        '                    : 0.25 * (old[at - 1] + old[at + 1] + old[at - width] + old[at + width]);' // n // &
        '}'
contains
    ! The same step for devices without CUDA. Ferry calls it once per launch.
    function spread_on_host(call, user) bind(c) result(status)
        type(c_ptr), value :: call, user
        integer(c_int) :: status
        real(c_double), pointer, contiguous :: old_values(:), next_values(:)

        status = ferry_ok
        if (c_associated(user)) status = ferry_error_invalid_argument
        call ferry_double_call_array(call, 1, old_values)
        call ferry_double_call_array(call, 2, next_values)
        call spread_step(old_values, next_values, int(ferry_call_size(call, 3)), int(ferry_call_size(call, 4)))
    end function

    subroutine spread_step(old, next, columns, rows)
        integer, intent(in) :: columns, rows
        real(c_double), intent(in) :: old(columns, rows)
        real(c_double), intent(inout) :: next(columns, rows)
        integer :: x, y

        next = old
        do y = 2, rows - 1
            do x = 2, columns - 1
                next(x, y) = 0.25_c_double * (old(x - 1, y) + old(x + 1, y) + old(x, y - 1) + old(x, y + 1))
            end do
        end do
    end subroutine
end module

program diffusion
    use diffusion_kernel
    implicit none

    call run()
contains
    ! Buffers, kernel and context end with this procedure.
    subroutine run()
        type(ferry_context) :: context
        type(ferry_kernel) :: spread
        type(ferry_double_buffer) :: old, next, swap
        type(ferry_scope) :: scope
        type(c_funptr) :: on_host
        real(c_double), pointer, contiguous :: plate(:, :)
        real(c_double), allocatable :: expected(:, :), other(:, :)
        integer(c_size_t), parameter :: items = int(width * height, c_size_t)
        integer :: step

        call context%create()
        allocate (expected(width, height), other(width, height))
        on_host = c_funloc(spread_on_host)
        call spread%create(context, 'spread', [ferry_double_parameter(ferry_read), ferry_double_parameter(ferry_overwrite), &
            ferry_size_parameter(), ferry_size_parameter()], cuda_source=cuda_source, host_function=on_host)
        call old%create(context, items, name='plate')
        call next%create(context, items)

        call old%overwrite_host([width, height], scope, plate)
        plate = 0
        plate(:, 1) = 100
        expected = plate
        call scope%close()

        do step = 1, 50
            call spread%launch(context%stream(), items, [old%argument(), next%argument(), &
                ferry_size_value(int(width, c_size_t)), ferry_size_value(int(height, c_size_t))])
            swap = old
            old = next
            next = swap
            call spread_step(expected, other, width, height)
            expected = other
        end do

        call old%read_host([width, height], scope, plate)
        write (*, '(a,f8.4,a,es8.1)') 'below the hot edge: ', plate(width / 2, 2), ', largest difference ', &
            maxval(abs(plate - expected))
        if (maxval(abs(plate - expected)) > 1e-12_c_double) error stop 'the plate is wrong'
        call scope%close()
    end subroutine
end program
