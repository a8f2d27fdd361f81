#include "workloads/scene/mesh_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "harness/error.hpp"
#include "workloads/scene/generate.hpp"

using namespace gpuheap::bench;
using namespace gpuheap::bench::scene;

namespace {

template <class Read>
std::string why_refused(Read read, std::string const& text, std::string const& name) {
  std::istringstream in(text);
  try {
    (void)read(in, name);
  } catch (usage_error const& e) {
    return e.what();
  }
  return "it was accepted";
}
triangle_list (*const obj)(std::istream&, std::string const&) = &read_obj;
triangle_list (*const ply)(std::istream&, std::string const&) = &read_ply;

triangle_list read(triangle_list (*how)(std::istream&, std::string const&), std::string const& text) {
  std::istringstream in(text);
  return how(in, "file");
}

bool same(vec3 const& a, float x, float y, float z) { return a[0] == x && a[1] == y && a[2] == z; }

std::string const square = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n";
std::string const ply_head =
    "ply\nformat ascii 1.0\ncomment made by hand\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
    "element face 1\nproperty list uchar int vertex_indices\nend_header\n";

// A binary PLY of one triangle, its numbers in this or the other byte order, with a colour that nobody wants.
std::string binary(bool big) {
  std::string text = std::string("ply\nformat binary_") + (big ? "big" : "little") +
                     "_endian 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nproperty uchar red\n"
                     "element face 1\nproperty list uchar uint vertex_index\nend_header\n";
  auto const put = [&](auto value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    if (big) std::reverse(raw, raw + sizeof value);
    text.append(raw, sizeof value);
  };
  for (float corner = 0; corner < 3; ++corner) {
    put(corner);
    put(2 * corner);
    put(-1.5f);
    text += '\n';
  }
  text += char{3};
  for (std::uint32_t i = 0; i < 3; ++i) put(i);
  return text;
}

}  // namespace

TEST(Obj, FacesBecomeFans) {
  auto const list =
      read(obj, "# a square\nmtllib a.mtl\no square\n" + square + "vt 0 0\nvn 0 0 1\nusemtl red\ns off\nf 1/1/1 2//1 3/1 -1\n");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(same(list[0].a, 0, 0, 0) && same(list[0].b, 1, 0, 0) && same(list[0].c, 1, 1, 0));
  EXPECT_TRUE(same(list[1].a, 0, 0, 0) && same(list[1].b, 1, 1, 0) && same(list[1].c, 0, 1, 0));
}

TEST(Obj, MistakesAreNamedWithTheirLine) {
  EXPECT_EQ(why_refused(obj, "v 0 0\n", "s.obj"), "s.obj:1: expected a corner 'v x y z', found 'v 0 0'");
  EXPECT_EQ(why_refused(obj, "v 0 0 up\n", "s.obj"), "s.obj:1: expected a corner 'v x y z' of three numbers, found 'v 0 0 up'");
  EXPECT_EQ(why_refused(obj, square + "f 1 2\n", "s.obj"),
            "s.obj:5: expected a face 'f a b c ...' of at least three corners, found 'f 1 2'");
  EXPECT_EQ(why_refused(obj, square + "f 1 2 5\n", "s.obj"),
            "s.obj:5: expected corner numbers from 1 to 4, the corners so far, or as many back from -1, found 'f 1 2 5'");
  EXPECT_EQ(why_refused(obj, square + "f 1 2 -5\n", "s.obj").substr(0, 17), "s.obj:5: expected");
  EXPECT_EQ(why_refused(obj, square + "f 1 0 2\n", "s.obj").substr(0, 17), "s.obj:5: expected");
  EXPECT_EQ(why_refused(obj, square + "f 1 b 2\n", "s.obj"), "s.obj:5: expected a face 'f a b c ...' of corner numbers, found 'f 1 b 2'");
  EXPECT_EQ(why_refused(obj, "\n<html>\n", "s.obj"),
            "s.obj:2: expected 'v x y z', 'f a b c ...' or another statement of a Wavefront OBJ file, found '<html>'");
}

TEST(Ply, TextAndBothByteOrdersSayTheSame) {
  auto const text = read(ply, ply_head + "0 0 -1.5\n1 2 -1.5\n2 4 -1.5\n3 0 1 2\n");
  for (auto const& list : {text, read(ply, binary(false)), read(ply, binary(true))}) {
    ASSERT_EQ(list.size(), 1u);
    EXPECT_TRUE(same(list[0].a, 0, 0, -1.5f) && same(list[0].b, 1, 2, -1.5f) && same(list[0].c, 2, 4, -1.5f));
  }
}

TEST(Ply, MistakesAreNamedWithTheirLineOrElement) {
  EXPECT_EQ(why_refused(ply, "solid x\n", "s.ply"), "s.ply:1: expected 'ply', the first line of a PLY file, found 'solid x'");
  EXPECT_EQ(why_refused(ply, "ply\nelement vertex 3\n", "s.ply"), "s.ply:3: expected 'end_header', found the end of the file");
  EXPECT_EQ(why_refused(ply, "ply\nformat ascii 2.0\n", "s.ply"),
            "s.ply:2: expected 'format <ascii|binary_little_endian|binary_big_endian> 1.0', found 'format ascii 2.0'");
  EXPECT_EQ(why_refused(ply, "ply\nformat ascii 1.0\nend_header\n", "s.ply"),
            "s.ply: expected an element 'vertex' with properties x, y and z in the header");
  EXPECT_EQ(why_refused(ply, ply_head + "0 0 0\n1 0 0\n", "s.ply"), "s.ply:13: expected vertex 2 of 3, found the end of the file");
  EXPECT_EQ(why_refused(ply, ply_head + "0 0 0\n1 0\n0 1 0\n3 0 1 2\n", "s.ply"),
            "s.ply:12: expected the numbers of vertex 1 of 3, found '1 0'");
  EXPECT_EQ(why_refused(ply, ply_head + "0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "s.ply"),
            "s.ply:14: expected corner numbers from 0 to 2 in face 0 of 1, found '3 0 1 3'");
  EXPECT_EQ(why_refused(ply, ply_head + "0 0 0\n1 0 0\n0 1 0\n2 0 1\n", "s.ply"),
            "s.ply:14: expected a face of 3 to 65536 corners in face 0 of 1, found '2 0 1'");
  EXPECT_EQ(why_refused(ply, ply_head + "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\nmore\n", "s.ply"),
            "s.ply:15: expected the end of the file after the last element, found 'more'");
  auto const whole = binary(true);
  EXPECT_EQ(why_refused(ply, whole.substr(0, whole.size() - 1), "s.ply"), "s.ply: expected face 0 of 1, found the end of the file");
  EXPECT_EQ(why_refused(ply, whole + "x", "s.ply"), "s.ply: expected the end of the file after the last element");
}

TEST(Ply, CoordinatesAreFiniteAsFloatsToo) {
  std::string text = ply_head;
  text.replace(text.find("property float y"), 16, "property double y");
  std::string const why = why_refused(ply, text + "0 1e39 0\n1 0 0\n0 1 0\n3 0 1 2\n", "file");
  EXPECT_NE(why.find("finite coordinates"), std::string::npos) << why;
}

// The header alone says how many there are, and nothing is written of one.
TEST(Ply, ElementsOfNothingTakeNoTime) {
  std::string text = binary(false);
  text.replace(text.find("element face"), 0, "element nothing 18446744073709551615\n");
  EXPECT_EQ(read(ply, text).size(), 1u);
}

TEST(Mesh, AFileIsReadByItsName) {
  EXPECT_THROW((void)read_mesh("nowhere.obj"), usage_error);
  EXPECT_THROW((void)read_mesh("/dev/null"), usage_error);
}

TEST(Generated, ScenesHaveWhatWasAskedForAndAreTheSameAgain) {
  for (std::string const kind : scene_kinds) {
    auto const one = make_scene(kind, 3000, 7), same_again = make_scene(kind, 3000, 7), other = make_scene(kind, 3000, 8);
    ASSERT_EQ(one.size(), 3000u) << kind;
    EXPECT_EQ(std::memcmp(one.data(), same_again.data(), one.size() * sizeof(triangle)), 0) << kind;
    EXPECT_NE(std::memcmp(one.data(), other.data(), one.size() * sizeof(triangle)), 0) << kind;
    EXPECT_EQ(make_scene(kind, 16, 1).size(), 16u);
  }
}
