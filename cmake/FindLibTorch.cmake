# LibTorch as the Python package torch has it: the targets LibTorch::LibTorch and, for modules of
# Python, LibTorch::Python; and LibTorch_VERSION. torch is that of Python_EXECUTABLE, or the one in
# the folder LibTorch_ROOT. The package's own CMake files want a CUDA toolkit where torch was built
# for CUDA; nothing here needs one.
find_package(Python 3.9 COMPONENTS Interpreter)
if(Python_EXECUTABLE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
      "import importlib.util; print(*importlib.util.find_spec('torch').submodule_search_locations)"
    OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

find_path(LibTorch_INCLUDE_DIR torch/headeronly/version.h HINTS ${torch_folder} PATH_SUFFIXES include)
foreach(part c10 torch_cpu torch_python)
  find_library(LibTorch_${part}_LIBRARY ${part} HINTS ${torch_folder} PATH_SUFFIXES lib)
endforeach()
if(LibTorch_INCLUDE_DIR)
  file(READ ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h version_header)
  string(REGEX MATCH "TORCH_VERSION[ \\\n]+\"([0-9.]+)" version_line "${version_header}")
  set(LibTorch_VERSION ${CMAKE_MATCH_1})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_c10_LIBRARY LibTorch_torch_cpu_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Run scripts/setup.sh, or pip install torch for ${Python_EXECUTABLE}, \
or do without the executor by -DLOWTIDE_RUNTIME=OFF.")

function(add_libtorch_target target part)
  add_library(${target} SHARED IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${LibTorch_${part}_LIBRARY} INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_libtorch_target(LibTorch::c10 c10)
  add_libtorch_target(LibTorch::LibTorch torch_cpu LibTorch::c10)
  target_include_directories(LibTorch::LibTorch INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  if(LibTorch_torch_python_LIBRARY)
    add_libtorch_target(LibTorch::Python torch_python LibTorch::LibTorch)
  endif()
endif()
