! SPDX-License-Identifier: MIT
! A derived type that ferry-gen made from fields, a kernel, and buffers that go to the C library mylib and come from it.

module stretching
    use, intrinsic :: iso_c_binding
    use ferry
    use ferry_float_buffers
    use arrows_arrow_buffers
    implicit none

    interface
        function mylib_line(context, count, out) bind(c) result(status)
            import :: c_ptr, c_size_t, c_int
            type(c_ptr), value :: context
            integer(c_size_t), value :: count
            type(c_ptr), intent(inout) :: out
            integer(c_int) :: status
        end function

        function mylib_shift(vectors, by) bind(c) result(status)
            import :: c_ptr, c_float, c_int
            type(c_ptr), value :: vectors
            real(c_float), value :: by
            integer(c_int) :: status
        end function

        subroutine ferry_buffer_destroy(buffer) bind(c)
            import :: c_ptr
            type(c_ptr), intent(inout) :: buffer
        end subroutine
    end interface

contains

    function stretch_on_host(call, user) bind(c) result(status)
        type(c_ptr), value :: call, user
        integer(c_int) :: status
        type(arrows_arrow), pointer, contiguous :: arrows(:)
        type(arrows_arrow), pointer :: by
        real(c_float), pointer :: factor

        status = ferry_ok
        if (c_associated(user)) status = ferry_error_invalid_argument
        call arrows_arrow_call_array(call, 1, arrows)
        call arrows_arrow_call_value(call, 2, by)
        call ferry_float_call_value(call, 3, factor)
        arrows%length = arrows%length * factor + by%length
        arrows%direction(2) = by%direction(2)
    end function

    subroutine expect(condition, what)
        logical, intent(in) :: condition
        character(len=*), intent(in) :: what

        if (condition) return
        write (*, '(3a)') what, ': not as expected; ', ferry_last_error()
        error stop 1
    end subroutine

    subroutine run()
        type(ferry_context) :: context
        type(ferry_kernel) :: stretch
        type(arrows_arrow_buffer) :: arrows, adopted
        type(ferry_float_buffer) :: numbers
        type(ferry_scope) :: scope
        type(arrows_arrow), pointer, contiguous :: p(:)
        type(c_funptr) :: on_host
        type(c_ptr) :: line

        call context%create()
        on_host = c_funloc(stretch_on_host)
        call stretch%create(context, 'stretch', [arrows_arrow_parameter(ferry_update), arrows_arrow_parameter(), &
            ferry_float_parameter()], host_function=on_host)

        ! A buffer of this project goes to C, and C's kernel runs between two of ours.
        call arrows%create(context, 10_c_size_t)
        call arrows%fill(arrows_arrow(length=1.0, direction=[2.0, 3.0]))
        call stretch%launch(context%stream(), 10_c_size_t, [arrows%argument(), &
            arrows_arrow_value(arrows_arrow(length=0.5, direction=[0.0, 7.0])), ferry_float_value(2.0)])
        call ferry_check(mylib_shift(arrows%raw(), 10.0))
        call stretch%launch(context%stream(), 1_c_size_t, [arrows%argument(first=10_c_size_t), &
            arrows_arrow_value(arrows_arrow(length=0.0, direction=[0.0, 8.0])), ferry_float_value(2.0)])
        call arrows%read_host(scope, p)
        call expect(nearly(p(1)%length, 12.5) .and. nearly(p(1)%direction(1), 2.0) .and. nearly(p(1)%direction(2), 7.0), 'first')
        call expect(nearly(p(10)%length, 25.0) .and. nearly(p(10)%direction(2), 8.0), 'last')
        call scope%close()

        ! A buffer of C becomes ours.
        line = c_null_ptr
        call ferry_check(mylib_line(context%raw(), 5_c_size_t, line))
        call adopted%retain(line)
        call ferry_buffer_destroy(line)
        call adopted%copy(arrows, first=1_c_size_t, source_first=10_c_size_t, count=1_c_size_t)
        call adopted%read_host(scope, p)
        call expect(size(p) == 5 .and. nearly(p(1)%length, 25.0) .and. nearly(p(5)%length, 4.0) .and. &
            nearly(p(5)%direction(1), 1.0), 'of C')
        call scope%close()

        call numbers%create(context, 1_c_size_t)
        call expect(mylib_shift(numbers%raw(), 1.0) == ferry_error_wrong_type, 'another element')
    end subroutine

    pure function nearly(a, b) result(same)
        real(c_float), intent(in) :: a, b
        logical :: same

        same = abs(a - b) < 1e-6
    end function
end module

program consumer
    use stretching
    implicit none

    call run()
end program
