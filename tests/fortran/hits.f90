! SPDX-License-Identifier: MIT
! usage: fortran_hits KIND ROUNDS: as tests/cpp/hits.cpp, with loops in Fortran.

module loops
    use, intrinsic :: iso_c_binding
    use ferry
    use ferry_float_buffers
    implicit none

    ! A C handle of floats, as a struct by value.
    type, bind(c) :: float_handle
        type(c_ptr) :: raw
    end type

    interface
        function hits_c_read(buffer, rounds) bind(c) result(ok)
            import :: float_handle, c_size_t, c_bool
            type(float_handle), value :: buffer
            integer(c_size_t), value :: rounds
            logical(c_bool) :: ok
        end function

        function hits_c_read_range(buffer, rounds) bind(c) result(ok)
            import :: float_handle, c_size_t, c_bool
            type(float_handle), value :: buffer
            integer(c_size_t), value :: rounds
            logical(c_bool) :: ok
        end function

        function hits_c_read_device(buffer, rounds) bind(c) result(ok)
            import :: float_handle, c_size_t, c_bool
            type(float_handle), value :: buffer
            integer(c_size_t), value :: rounds
            logical(c_bool) :: ok
        end function

        function hits_c_update(buffer, rounds) bind(c) result(ok)
            import :: float_handle, c_size_t, c_bool
            type(float_handle), value :: buffer
            integer(c_size_t), value :: rounds
            logical(c_bool) :: ok
        end function
    end interface

contains

    subroutine read_all(buffer, rounds)
        type(ferry_float_buffer), intent(in) :: buffer
        integer(c_size_t), intent(in) :: rounds
        type(ferry_scope) :: scope
        real(c_float), pointer, contiguous :: values(:)
        integer(c_size_t) :: i

        do i = 1, rounds
            call buffer%read_host(scope, values)
            call scope%close()
        end do
    end subroutine

    subroutine read_range(buffer, rounds)
        type(ferry_float_buffer), intent(in) :: buffer
        integer(c_size_t), intent(in) :: rounds
        type(ferry_scope) :: scope
        real(c_float), pointer, contiguous :: values(:)
        integer(c_size_t) :: i

        do i = 1, rounds
            call buffer%read_host(scope, values, first=3_c_size_t, count=5_c_size_t)
            call scope%close()
        end do
    end subroutine

    subroutine read_on_device(buffer, stream, rounds)
        type(ferry_float_buffer), intent(in) :: buffer
        type(ferry_stream), intent(in) :: stream
        integer(c_size_t), intent(in) :: rounds
        type(ferry_scope) :: scope
        type(c_ptr) :: address
        integer(c_size_t) :: i

        do i = 1, rounds
            call buffer%read_device(stream, scope, address)
            call scope%close()
        end do
    end subroutine

    subroutine update_all(buffer, rounds)
        type(ferry_float_buffer), intent(inout) :: buffer
        integer(c_size_t), intent(in) :: rounds
        type(ferry_scope) :: scope
        real(c_float), pointer, contiguous :: values(:)
        integer(c_size_t) :: i

        do i = 1, rounds
            call buffer%update_host(scope, values)
            call scope%close()
        end do
    end subroutine

    subroutine run(kind, rounds)
        character(len=*), intent(in) :: kind
        integer(c_size_t), intent(in) :: rounds
        type(ferry_context) :: context
        type(ferry_stream) :: stream
        type(ferry_float_buffer) :: buffer
        logical :: ok

        call context%create('emulated')
        call buffer%create(context, 100_c_size_t)
        call buffer%fill(1.0)
        call buffer%sync_to(1)
        ok = .true.
        select case (kind)
        case ('C read')
            ok = hits_c_read(float_handle(buffer%raw()), rounds)
        case ('C read of a range')
            ok = hits_c_read_range(float_handle(buffer%raw()), rounds)
        case ('C read on a device')
            ok = hits_c_read_device(float_handle(buffer%raw()), rounds)
        case ('C update')
            ok = hits_c_update(float_handle(buffer%raw()), rounds)
        case ('Fortran read')
            call read_all(buffer, rounds)
        case ('Fortran read of a range')
            call read_range(buffer, rounds)
        case ('Fortran read on a device')
            call read_on_device(buffer, stream, rounds)
        case ('Fortran update')
            call update_all(buffer, rounds)
        case default
            ok = .false.
        end select
        if (.not. ok) error stop 'the loop failed'
    end subroutine
end module

program hits
    use loops
    implicit none
    character(len=64) :: kind, text
    integer(c_size_t) :: rounds

    call get_command_argument(1, kind)
    call get_command_argument(2, text)
    read (text, *) rounds
    call run(trim(kind), rounds)
end program
