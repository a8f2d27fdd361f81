#include "workloads/graph/matrix_market.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "harness/error.hpp"

using namespace gpuheap::bench;
using graph::edge;
using graph::read_matrix_market;

namespace {

graph::edge_list read(std::string const& text) {
  std::istringstream in(text);
  return read_matrix_market(in, "g.mtx");
}

std::string why_refused(std::string const& text) {
  try {
    (void)read(text);
  } catch (usage_error const& e) {
    return e.what();
  }
  return "it was accepted";
}

std::string const general = "%%MatrixMarket matrix coordinate pattern general\n";
std::string const header_expected =
    "expected '%%MatrixMarket matrix coordinate <pattern|real|integer|complex> <general|symmetric|skew-symmetric|hermitian>'";

}  // namespace

TEST(MatrixMarket, EntriesBecomeEdges) {
  auto const list = read(general + "3 3 3\n1 2\n3 1\n2 2\n");
  EXPECT_EQ(list.num_vertices, 3u);
  EXPECT_EQ(list.edges, (std::vector<edge>{{0, 1}, {2, 0}, {1, 1}}));
}

TEST(MatrixMarket, SymmetricEntriesGoBothWaysOffTheDiagonal) {
  auto const list = read("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 0.5\n3 3 -1e-3\n");
  EXPECT_EQ(list.edges, (std::vector<edge>{{1, 0}, {0, 1}, {2, 2}}));
}

TEST(MatrixMarket, ValuesOfEveryKindAreDropped) {
  EXPECT_EQ(read("%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 -7\n").edges.size(), 1u);
  EXPECT_EQ(read("%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n2 1 1.5 +2\n").edges.size(), 2u);
}

TEST(MatrixMarket, CommentsBlankLinesCaseAndCarriageReturnsDoNotMatter) {
  auto const list =
      read("%%matrixmarket MATRIX Coordinate Pattern GENERAL\r\n% a comment\r\n\r\n  2 2 2\r\n1 2\r\n%another\r\n\t2  1 \r\n\r\n");
  EXPECT_EQ(list.edges, (std::vector<edge>{{0, 1}, {1, 0}}));
}

TEST(MatrixMarket, TruncatedFileSaysHowMuchIsMissing) {
  EXPECT_EQ(why_refused(general + "3 3 3\n1 2\n3 1\n"), "g.mtx:5: expected 3 entries, of which 2 are there, found the end of the file");
  EXPECT_EQ(why_refused(general), "g.mtx:2: expected the size line 'rows columns entries', found the end of the file");
  EXPECT_EQ(why_refused(""), "g.mtx:1: " + header_expected + ", found the end of the file");
}

TEST(MatrixMarket, ALieAboutTheLengthTakesNoMemory) {
  EXPECT_EQ(why_refused(general + "3 3 18446744073709551615\n1 2\n"),
            "g.mtx:4: expected 18446744073709551615 entries, of which 1 are there, found the end of the file");
}

TEST(MatrixMarket, MoreEntriesThanPromised) {
  EXPECT_EQ(why_refused(general + "3 3 1\n1 2\n2 3\n"), "g.mtx:4: expected the end of the file after 1 entries, found '2 3'");
}

TEST(MatrixMarket, NotSquare) {
  EXPECT_EQ(why_refused(general + "3 4 1\n1 2\n"), "g.mtx:2: expected a square matrix: as many columns as rows, found '3 4 1'");
}

TEST(MatrixMarket, IndexOutOfRange) {
  for (std::string entry : {"0 1", "1 0", "4 1", "1 4", "18446744073709551615 1"}) {
    EXPECT_EQ(why_refused(general + "3 3 1\n" + entry + "\n"), "g.mtx:3: expected row and column from 1 to 3, found '" + entry + "'");
  }
}

TEST(MatrixMarket, MalformedEntry) {
  for (std::string entry : {"1", "1 2 3", "a b", "1 -2", "1.5 2", "1 2x", "99999999999999999999 1"}) {
    EXPECT_EQ(why_refused(general + "3 3 1\n" + entry + "\n"), "g.mtx:3: expected an entry 'row column', found '" + entry + "'");
  }
  EXPECT_EQ(why_refused("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2\n"),
            "g.mtx:3: expected an entry 'row column value', found '1 2'");
  EXPECT_EQ(why_refused("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 heavy\n"),
            "g.mtx:3: expected an entry 'row column value', found '1 2 heavy'");
}

TEST(MatrixMarket, MalformedHeader) {
  for (std::string header : {"hello", "%MatrixMarket matrix coordinate pattern general", "%%MatrixMarket matrix array real general",
                             "%%MatrixMarket matrix coordinate blue general", "%%MatrixMarket matrix coordinate pattern upper",
                             "%%MatrixMarket matrix coordinate real"}) {
    std::string const shown = header.size() > 60 ? header.substr(0, 60) + "..." : header;
    EXPECT_EQ(why_refused(header + "\n3 3 0\n"), "g.mtx:1: " + header_expected + ", found '" + shown + "'");
  }
}

TEST(MatrixMarket, MalformedSize) {
  for (std::string size : {"3 3", "3 3 1 1", "three three one", "-3 3 1"}) {
    EXPECT_EQ(why_refused(general + size + "\n"), "g.mtx:2: expected the size line 'rows columns entries', found '" + size + "'");
  }
  EXPECT_EQ(why_refused(general + "0 0 0\n"), "g.mtx:2: expected 1 to 4294967295 rows, found '0 0 0'");
}

TEST(MatrixMarket, MissingFileAndFolderAreNamed) {
  auto const why = [](std::string const& path) -> std::string {
    try {
      (void)read_matrix_market(path);
    } catch (usage_error const& e) {
      return e.what();
    }
    return "it was accepted";
  };
  EXPECT_EQ(why("/nonexistent/g.mtx"), "/nonexistent/g.mtx: cannot be opened: No such file or directory");
  EXPECT_EQ(why(testing::TempDir()), testing::TempDir() + ": reading failed after line 0");
}
