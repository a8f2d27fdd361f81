// Reading a graph from a Matrix Market file (https://math.nist.gov/MatrixMarket/formats.html): the coordinate format of a square matrix,
// entry (r, c) being the edge from vertex r - 1 to vertex c - 1. Values are checked and dropped. An entry off the diagonal of a symmetric
// matrix gives both directions.
#pragma once

#include <iosfwd>
#include <string>

#include "workloads/graph/edge_list.hpp"

namespace gpuheap::bench::graph {

// Throws usage_error with file, line and what was expected there, if the file cannot be read, is truncated or longer than it says, is not
// square, has an index out of range, or is not Matrix Market.
[[nodiscard]] edge_list read_matrix_market(std::string const& path);

// The same from a stream; `name` stands for the file in messages.
[[nodiscard]] edge_list read_matrix_market(std::istream& in, std::string const& name);

}  // namespace gpuheap::bench::graph
