# make demo      installs, builds, trains ResNet-50 and a GPT within 60% and 40% of their memory
# make test      installs, builds, runs every test
# make sanitize  the core's tests again under the address and undefined-behaviour sanitizers
# make bench     the comparisons with PyTorch (slow)

.PHONY: demo test sanitize bench setup clean

demo: setup
	scripts/build.sh lowtide lowtide_python lowtide_python_runtime
	.venv/bin/python scripts/demo.py

test: setup
	scripts/build.sh
	scripts/test.sh

sanitize: setup
	scripts/sanitize.sh

bench: setup
	scripts/build.sh
	.venv/bin/python bench/run_all.py

setup:
	scripts/setup.sh

clean:
	rm -rf build build-sanitize out
