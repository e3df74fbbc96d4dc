# make demo      installs, builds, trains ResNet-50 and a GPT within 60% and 40% of their memory
# make test      installs, builds, runs the tests
# make test-all  the same, then all tests, and random trainings, plans and files, for hours
# make sanitize  the C++ tests again under the address, undefined-behaviour and thread sanitizers
# make fuzz      random files and plans under the sanitizers of addresses and undefined behaviour
# make lint      checks the sources: ruff, mypy, clang-format, clang-tidy
# make coverage  which share of the lines of the core the C++ tests run; fails below 90%
# make site      the documentation as a site, in out/site
# make bench     the comparisons with PyTorch (slow)

.PHONY: demo test test-all sanitize fuzz lint coverage site bench setup browser clean

demo: setup
	scripts/build.sh lowtide lowtide_python lowtide_python_runtime lowtide_python_fake_cuda
	.venv/bin/python scripts/demo.py

test: setup browser
	scripts/build.sh
	scripts/test.sh

test-all: test site
	scripts/build.sh benchmarks
	LOWTIDE_SWEEP=1 .venv/bin/ctest --test-dir build --output-on-failure -j "$$(nproc)"
	scripts/test_python.sh -m sweep
	scripts/test_simulated.sh
	.venv/bin/python tests/python/differential.py --seconds 1200 --seed 1000
	build/tests/fuzz_graph 300 1
	build/tests/fuzz_layout 300 1
	build/tests/fuzz_plans 1200 1

sanitize: setup
	scripts/sanitize.sh

fuzz: setup
	scripts/fuzz.sh

lint: setup
	scripts/lint.sh

coverage: setup
	scripts/coverage.sh

site:
	scripts/site.sh

bench: setup
	scripts/build.sh all benchmarks
	.venv/bin/python bench/run_all.py

setup:
	scripts/setup.sh

browser:
	scripts/setup_browser.sh

clean:
	rm -rf build build-* out
