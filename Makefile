# What there is to do with the source; `make` alone lists it.

# An absolute or relative folder; cargo reads the same variable.
TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help setup build demo test lint figures bench peers clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make sure that a Redis-compatible server program is there
	@scripts/setup

build: ## Build the release binary
	cargo build --release -p baton-cli

demo: setup build ## Build, then watch a fleet at work; Ctrl-C ends it
	@# Ctrl-C reaches make and this shell too; the trap leaves the ending to the demo.
	@trap : INT; $(TARGET)/release/baton demo || [ $$? -eq 130 ]

test: setup ## Run every test, on real servers
	cargo test --workspace

lint: ## Check the format, and deny every warning
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

figures: setup build ## Measure again what the documents claim; ARGS=--quick for a short look
	cargo run --release -p baton-harness --bin figures -- $(ARGS)

bench: setup build ## Time and audit a million messages; ARGS="--kill 20", see baton bench --help
	@$(TARGET)/release/baton bench $(ARGS)

peers: setup build ## Measure other job queues beside ours (20 min); PARTS=node ARGS="bullmq" for one
	bench/peers/setup $(PARTS)
	cargo run --release -p baton-harness --bin peers -- $(ARGS)

clean: ## Remove everything that was built or fetched
	cargo clean
