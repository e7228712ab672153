/* SPDX-License-Identifier: MIT */
#ifndef ARROW_HPP
#define ARROW_HPP

/* A struct with the content of mylib_vec3, but with names of this project. */
namespace arrows
{

struct arrow {
    float length;
    float direction[2];
};

} // namespace arrows

using arrows_arrow = arrows::arrow;

#endif
