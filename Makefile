# make demo      installs, builds, trains ResNet-50 and a GPT within 60% and 40% of their memory
# make test      installs, builds, runs every test
# make sanitize  the core's tests again under the address and undefined-behaviour sanitizers
# make bench     the comparisons with PyTorch (slow)

.PHONY: demo test sanitize bench build setup clean

demo: build
	.venv/bin/python scripts/demo.py

test: build
	scripts/test.sh

sanitize: setup
	scripts/sanitize.sh

bench: build
	.venv/bin/python bench/run_all.py

build: setup
	scripts/build.sh

setup:
	scripts/setup.sh

clean:
	rm -rf build build-sanitize out
