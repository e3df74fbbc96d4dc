# A wheel is built against the torch and the HiGHS of the Python that builds it, and finds them
# beside itself in site-packages when it is loaded.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
    "import pathlib, highsbox, torch; print(pathlib.Path(highsbox.__file__).parent / 'highs_dist')"
  OUTPUT_VARIABLE highs OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE missing)
if(missing)
  message(FATAL_ERROR "${Python_EXECUTABLE} lacks torch or highsbox: "
                      "pip install the packages of build-system.requires in pyproject.toml")
endif()
list(APPEND CMAKE_PREFIX_PATH ${highs})
# From lowtide/ and from lowtide/bin/.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../torch/lib;$ORIGIN/../highsbox/highs_dist/lib"
    "$ORIGIN/../../torch/lib;$ORIGIN/../../highsbox/highs_dist/lib")
