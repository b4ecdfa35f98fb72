# What there is to do with the source; `make` alone lists it.

# An absolute or relative folder; cargo reads the same variable.
TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
# chaos-programs is only for the others.
.PHONY: chaos-programs help setup build dist reproducible deb image deploy demo test lint deny msrv doc site reference package semver figures bench peers model conform chaos csv upgrade points mutants proof fuzz clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make sure that a Redis-compatible server program is there
	@scripts/setup

build: ## Build the release binary
	cargo build --release -p baton-cli

dist: setup ## Build the tarballs that people install, their bills of materials and checksums: target/dist
	@scripts/dist
	@scripts/idle-memory
	@scripts/dist-static

reproducible: ## Build the tarball of this commit twice, in two folders, and compare the bytes
	@scripts/reproducible

deb: setup ## Build the Debian package, and install, run, remove and purge it in a root folder
	@scripts/deb
	@scripts/deb-test

demo: setup build ## Build, then watch a fleet at work; Ctrl-C ends it
	@# Ctrl-C reaches make and this shell too; the trap leaves the ending to the demo.
	@trap : INT; $(TARGET)/release/baton demo || [ $$? -eq 130 ]

# The seeds are fixed, so that two runs of one commit test the same; `cargo test`, `make conform` and `make fuzz` draw
# new ones.
TEST := env BATON_CONFORM_SEED=1 PROPTEST_RNG_SEED=1 \
	RUST_TEST_THREADS=$(or $(RUST_TEST_THREADS),$(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))) cargo test
MODEL_TESTS := --test explore --test explore_partitions --test conformance

test: setup ## Run every test, on real servers, in a real browser, behind a real proxy
	@scripts/setup-servers
	@scripts/setup-browser
	@scripts/setup-nginx
	@scripts/setup-postgres
	@scripts/setup-prometheus
	@scripts/setup-chaos
	cargo test --workspace --no-run
	@# Most tests wait for processes: more of them at a time than there are cores. The model's tests compute, and do
	@# so meanwhile.
	@mkdir -p $(TARGET)
	@nice $(TEST) --workspace $(MODEL_TESTS) > $(TARGET)/model-tests.log 2>&1 & model=$$!; \
	$(TEST) --workspace --exclude baton-model; others=$$?; \
	wait $$model; model=$$?; cat $(TARGET)/model-tests.log; [ $$others = 0 ] && [ $$model = 0 ]
	cargo test -p baton-fleet --features postgres,testing,tracing --lib --test outbox --test testing --test spans

lint: ## Check the format, and deny every warning
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p baton-fleet --all-targets --features cron,postgres,testing,tracing -- -D warnings

deny: ## Check the dependencies: licenses, duplicates, sources, advisories
	@scripts/deny

msrv: ## Check that the product compiles with the oldest Rust it promises
	@scripts/msrv

doc: ## Build the documentation of the libraries as docs.rs does, and deny every warning
	@scripts/doc

# The tests of the documents: links on a code host, commands, and the reference.
DOCUMENTS := cargo test -p baton-cli -p baton-web --lib --test commands --test prometheus
site: setup ## Build the site of docs/ into target/site, check its links, run its commands
	@scripts/site/build $(TARGET)/site
	$(DOCUMENTS) document

reference: setup ## Write docs/reference anew, from the program itself
	BATON_WRITE_REFERENCE=1 $(DOCUMENTS) reference

package: ## Pack each crate of the product as for a registry, and build it from its package
	@scripts/package

semver: ## Check that the version fits what changed in the libraries since BASE=HEAD~1
	@scripts/semver $(or $(BASE),HEAD~1) $(ARGS)

image: setup ## Build the container image with the dist build, and try it, also with Compose; PROGRAM=path for another program
	@scripts/setup-image
	@scripts/image $(PROGRAM)
	@scripts/image-check
	@scripts/setup-deploy
	@scripts/compose-check

deploy: setup build ## Check the files for Compose and Kubernetes, and run what they describe; ARGS=compose for one
	@scripts/setup-deploy
	@scripts/deploy-check $(TARGET)/release/baton $(ARGS)

figures: setup build ## Measure again what the documents claim; ARGS=--quick, or ARGS="sizes --text=64"
	@scripts/setup-servers
	cargo run --release -p baton-figures --bin figures -- $(ARGS)

bench: setup build ## Time and audit a million messages; ARGS="--kill 20", see baton bench --help
	@$(TARGET)/release/baton bench $(ARGS)

peers: setup build ## Measure other job queues beside ours (20 min); PARTS=node ARGS="bullmq" for one
	bench/peers/setup $(PARTS)
	cargo run --release -p baton-figures --bin peers -- $(ARGS)

model: ## Explore the protocol's model further than the tests do (minutes)
	cargo run --release -p baton-model --bin model

conform: ## Hold the scripts against the model on every server, until Ctrl-C or for CALLS=100000
	@scripts/setup-servers
	@trap : INT; BATON_CONFORM_CALLS=$(or $(CALLS),endless) cargo test -p baton-model \
	  --test conformance every_server -- --nocapture || [ $$? -eq 130 ]

# The program with crash points is kept apart from the one that people run.
CHAOS := $(TARGET)/chaos/baton
chaos-programs: setup
	@scripts/setup-chaos
	cargo build --release -p baton-cli --features chaos
	@mkdir -p $(TARGET)/chaos && cp $(TARGET)/release/baton $(CHAOS)
	@# In its place again: the one without.
	cargo build --release -p baton-cli -p baton-chaos

chaos: chaos-programs ## Hurt a real fleet for ten minutes; ARGS="--handler exec --seconds 60", --help
	@trap : INT; $(TARGET)/release/chaos --program $(CHAOS) --out $(TARGET)/chaos.html \
	  $(or $(ARGS),--seconds 600) || { code=$$?; [ $$code -eq 130 ] || exit $$code; }

csv: chaos-programs ## Import a CSV of a million lines under kill -9 of everything; ARGS="--lines 200000 --kills 2"
	@$(TARGET)/release/csv --program $(CHAOS) $(ARGS)

upgrade: chaos-programs ## Replace the nodes of a running fleet, built from the commit before, and roll back; FORMER=commit
	@scripts/former-program $(FORMER)
	$(TARGET)/release/upgrade --program $(CHAOS) --former $(TARGET)/former/baton $(ARGS)

points: chaos-programs ## Let a copy die at each named point of the program, and a fleet go on
	BATON_CHAOS_PROGRAM=$(abspath $(CHAOS)) cargo test -p baton-chaos -- --ignored

mutants: chaos-programs ## Break the source in 199 ways, one by one; each must be noticed (an hour); ARGS=name
	@scripts/setup-servers
	cargo run --release -p baton-mutants --bin mutants -- $(ARGS)

proof: ## Run all the proofs, one after the other (more than an hour)
	cargo test -p baton-model --test explore --test explore_partitions -- --nocapture
	$(MAKE) conform CALLS=100000
	$(MAKE) chaos
	$(MAKE) chaos ARGS="--handler exec --seconds 600"
	$(MAKE) chaos ARGS="--handler push --seconds 600"
	$(MAKE) chaos ARGS="--source rows --seconds 600"
	$(MAKE) chaos ARGS="--topology sentinel --seconds 600"
	$(MAKE) chaos ARGS="--topology cluster --seconds 600"
	$(MAKE) chaos ARGS="--lossy 100 --level replicas:2"
	$(MAKE) csv
	$(MAKE) bench ARGS="--kill 20"
	$(MAKE) mutants

fuzz: ## Throw hostile bytes at all that reads them; TIME=300 seconds each, TARGETS="url pack"
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { \
	  echo "make fuzz needs a nightly compiler and cargo-fuzz; both are yours to install:"; \
	  echo "  rustup toolchain install nightly && cargo install cargo-fuzz"; exit 1; }
	@# What is found goes to the first folder; the corpus in the source stays as it is.
	@for target in $(or $(TARGETS),$$(cargo +nightly fuzz list --fuzz-dir proof/fuzz)); do \
	  echo "fuzz: $$target"; mkdir -p $(TARGET)/fuzz/corpus/$$target && \
	  cargo +nightly fuzz run --fuzz-dir proof/fuzz --target-dir $(TARGET)/fuzz $$target \
	    $(TARGET)/fuzz/corpus/$$target proof/fuzz/corpus/$$target -- -max_total_time=$(or $(TIME),60) \
	    -max_len=4096 -malloc_limit_mb=64 -timeout=10 -verbosity=0 -print_final_stats=1 || exit 1; \
	done

clean: ## Remove everything that was built or fetched
	cargo clean
