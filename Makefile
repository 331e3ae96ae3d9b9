# attune. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The same for all that is built, so that what one module or test has compiled serves the others.
export GOFLAGS := -buildvcs=false -trimpath
export CGO_ENABLED := 0
# The toolchain that go.mod names, in every module; it is downloaded where another one is installed.
export GOTOOLCHAIN := $(shell sed -n 's/^toolchain //p' $(dir $(lastword $(MAKEFILE_LIST)))go.mod)

CLUSTER := cd test && go run ./cluster/cmd/cluster
CERT_MANAGER ?=
PROMETHEUS ?=
NODES ?= 1
VM_NODES ?= 0
VALUES ?=
RUN ?= .
PARTS ?= 0.002,0.01
SEEDS ?= 20
HOURS ?= 2
FUZZTIME ?= 30s
TRACES ?=
VERSION ?=
REF ?= HEAD
# Where a release publishes image and chart, and the repository with its files. The project has no public address yet.
REGISTRY ?= attune.io
KEY ?=
URL ?= https://attune.io/source
RELEASE_PLATFORMS ?=
# Version and commit in the programs (VERSION=v1.2.3).
LDFLAGS = -s -w -X attune.io/attune/internal/answers.version=$(or $(VERSION),dev) -X attune.io/attune/internal/answers.commit=$(shell git rev-parse HEAD 2>/dev/null)

# The programs of a release run on these. THIRD_PARTY_NOTICES has the modules of all.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

##@ Try it

demo: ## The main job on a local cluster, from nothing: watch pods being sized at birth and in place
	@cd test && GOGC=400 go build -o ../bin/demo ./demo && ../bin/demo

cluster-up: ## Start the local cluster of this checkout (NODES=2 for two nodes, VM_NODES=1: the last has cgroup v2, CERT_MANAGER=1, PROMETHEUS=1)
	@$(CLUSTER) up --nodes $(NODES) --vm-nodes $(VM_NODES) $(if $(CERT_MANAGER),--cert-manager) $(if $(PROMETHEUS),--prometheus)

cluster-down: ## Remove the local cluster of this checkout and everything of it
	@$(CLUSTER) down

deploy: ## Build the operator, load it and install or upgrade the chart on the local cluster; self-signed certificates and embedded usage unless VALUES=file says otherwise
	@cd test && LDFLAGS='$(LDFLAGS)' go run ./cmd/deploy --values "$(abspath $(VALUES))"

ui: ## The web page of the operator on the local cluster, on 127.0.0.1:8321 of this machine (PORT=n)
	@$(CLUSTER) ui $(if $(PORT),--port $(PORT))

##@ Test it

# gotest is `go test` that also writes the result of each test to a file: $(call gotest,NAME) ARGUMENTS. $(call gotest-v,NAME)
# ARGUMENTS prints each test. Go takes the result of unchanged tests from its cache, unless -count or a flag of the tests is set.
RESULTS := $(CURDIR)/bin/results
gotest = $(CURDIR)/bin/gotestsum --format standard-quiet --hide-summary skipped --jsonfile $(RESULTS)/$(1).json --
gotest-v = $(CURDIR)/bin/gotestsum --format standard-verbose --hide-summary skipped --jsonfile $(RESULTS)/$(1).json --

# some fails where RUN is set and no test of these results ran: a name that matches nothing has shown nothing.
some = @[ -z '$(value RUN)' ] || grep -q '"Action":"run"' $(patsubst %,$(RESULTS)/%.json,$(1)) || { echo 'RUN=$(value RUN) matches no test' >&2; exit 1; }

bin/gotestsum: tools/go.mod
	@mkdir -p $(RESULTS)
	cd tools && go build -o ../bin/gotestsum gotest.tools/gotestsum

# Where tests read files outside of their module, or a program reads them, Go's test cache does not see a change. Such tests
# read this digest from the environment: ATTUNE_INPUTS=$(call inputs,PATHS).
inputs = "$$(git ls-files -zco --exclude-standard -- $(1) | xargs -0 sha256sum 2> /dev/null | sha256sum | cut -c1-16)"

test: bin/gotestsum ## All tests, lint and known vulnerabilities, set-up included; the last line says what passed, failed and was skipped
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@status=0; $(MAKE) --no-print-directory -j2 lane-clusters lane-background || status=$$?; \
	cd test && go run ./cmd/tally $(RESULTS); exit $$status

# timed-TARGET makes the target and writes its seconds down for the tally.
timed-%:
	@began=$$SECONDS status=0; $(MAKE) --no-print-directory $* || status=$$?; echo "$* $$((SECONDS - began))" >> $(RESULTS)/seconds; exit $$status

# The tests on real API servers and kubelets wait for most of their time, so those on kubelets start while those on API
# servers end. What needs no cluster runs beside them at a low priority, the pages beside the long run, as those wait for
# a browser, and prints when all of it is done; verify comes last, as it writes files that the others read. A lane that
# fails does not stop the other. Without MAKEFLAGS the lanes share no jobs.
lane-clusters: programs
	@MAKEFLAGS= $(MAKE) --no-print-directory -k -j2 timed-test-integration lane-kubelets

lane-kubelets:
	@status=0; MAKEFLAGS= $(MAKE) --no-print-directory timed-test-cluster || status=$$?; \
	MAKEFLAGS= $(MAKE) --no-print-directory timed-test-e2e || status=$$?; exit $$status

# Unit tests have waits of some seconds, which the lowest priority might not bring to their end.
lane-background:
	@status=0; { MAKEFLAGS= nice -n 5 $(MAKE) --no-print-directory -k timed-test-unit timed-test-karpenter || status=$$?; \
	MAKEFLAGS= nice -n 19 $(MAKE) --no-print-directory -k -j2 -O timed-test-browser timed-test-sim timed-vulncheck || status=$$?; \
	MAKEFLAGS= nice -n 19 $(MAKE) --no-print-directory timed-verify || status=$$?; } > $(RESULTS)/background.log 2>&1; \
	cat $(RESULTS)/background.log; exit $$status

# lint vets these modules with more checks than go test does.
UNVETTED := -vet=off -timeout 40m

# Garbage is collected less often than by default, as memory is not what tests lack: this saves a tenth of the CPU time of
# linkers and unit tests, and a fifth of that of an API server, which takes 750 MB instead of 350 MB.
test-unit test-karpenter test-sim test-browser test-integration test-cluster test-e2e coverage: export GOGC := 400

test-unit: bin/gotestsum ## Tests of pure code; no cluster
	$(call gotest,unit) $(UNVETTED) ./...
	cd test && ATTUNE_INPUTS=$(call inputs,':/*.go' ':/*/testdata/*' :/charts :/config :/docs :/go.mod) $(call gotest,unit-test) $(UNVETTED) . ./await/... ./bench/... ./bursts/... ./cmd/... ./decisions/... ./demand/... ./demo/... ./deploy/... ./fault/... ./field/... ./kubelet/... ./loops/... ./plane/... ./packed/... ./scoreboard/... ./sim/api/... ./sim/mutants/... ./tenants/... ./workload/...
	cd test/tsdb && ATTUNE_INPUTS=$(call inputs,:/charts :/docs/runbook.md) $(call gotest,unit-tsdb) ./...
	cd test/cluster/modules/criproxy && $(call gotest,unit-criproxy) ./...
	cd tools/release && ATTUNE_INPUTS=$(call inputs,:/Makefile :/config/krew :/charts :/LICENSE :/THIRD_PARTY_NOTICES :/RELEASE.md) $(call gotest,unit-release) ./...

# A profile compiles every package a second time: it is not part of test-unit.
coverage: bin/gotestsum ## The share of each package's statements that its own unit tests execute
	@go list -deps ./cmd/... > $(RESULTS)/product
	$(call gotest,unit) $(UNVETTED) -coverprofile=$(RESULTS)/unit.cover ./...
	cd test && go run ./cmd/tally $(RESULTS)

bin/karpenter/go.mod: test/karpenter/go.mod test/cmd/source/main.go
	cd test && go run ./cmd/source karpenter "$$(sed -n 's,^\tsigs.k8s.io/karpenter v,v,p' karpenter/go.mod)" ../bin/karpenter

bin/keda/go.mod: test/cluster/modules/keda/go.mod test/cmd/source/main.go $(wildcard test/cluster/modules/keda/testdata/pkg/*/*.go test/cluster/modules/keda/testdata/pkg/*/*/*.go)
	cd test && go run ./cmd/source keda "$$(sed -n 's,^\tgithub.com/kedacore/keda/v2 v,v,p' cluster/modules/keda/go.mod)" ../bin/keda cluster/modules/keda/testdata

test-karpenter: bin/gotestsum bin/karpenter/go.mod ## What the bridge publishes, as Karpenter's and VPA's own code reads it; no cluster
	cd test/karpenter && $(call gotest,karpenter) ./...

chromium: ## Install Debian's Chromium where there is none
	@[ -n "$${ATTUNE_CHROMIUM:-}" ] || command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null; }

test/browser/node_modules: test/browser/package-lock.json
	npm ci --prefix test/browser --ignore-scripts --no-audit --no-fund
	@touch $@

test-browser: chromium test/browser/node_modules bin/gotestsum ## Pages in Chromium, as a desktop and a phone show them; pictures in bin/screenshots
	cd test/browser && ATTUNE_INPUTS=$(call inputs,':/*.go' :/ui :/cmd :/docs :/test/browser) $(call gotest,browser) -timeout 30m ./...

test-sim: bin/gotestsum ## The long run: lives of a cluster in virtual time, one for each of SEEDS seeds
	cd test && ATTUNE_SIM_SEEDS=$(SEEDS) $(call gotest,sim) $(UNVETTED) ./sim

# One story of test/loops for each verb that the operator uses: create, status write, resize, revert, evict, delete, undo.
VERBS := ^(TestLoopsConvergeAndStay|TestLoopsRevertAnOOMAndLearn|TestLoopsEvictPodsTooLargeForTheirNode|TestLoopsFinishTheWatchOfADeletedPolicy|TestLoopsUndo|TestLoopsWithoutRights|TestLoopsAreStoppedByAnAdmissionPolicy|TestLoopsAbandonSizesThatTheAPIServerRejects|TestLoopsSizeContainersByTheirOwnSettings)$$

test-integration: programs bin/gotestsum ## Tests against a real API server, with its own validation code and Helm (RUN=name for some)
	cd test && $(call gotest,integration) -count=1 $(UNVETTED) -run '$(value RUN)' ./integration/... ./crash/... ./install
	cd test && ATTUNE_BACKEND=apiserver $(call gotest,loops) -count=1 $(UNVETTED) -run '$(if $(filter .,$(RUN)),$(VERBS),$(value RUN))' ./loops
	cd test/admission && $(call gotest,admission) -timeout 40m -run '$(value RUN)' ./...
	ATTUNE_INPUTS=$(call inputs,:/charts) ATTUNE_HELM="$$(cd test && go run ./cluster/cmd/cluster find helm)" $(call gotest,charts) -tags helm ./charts
	cd test/certmanager && ATTUNE_INPUTS=$(call inputs,:/charts :/test/cluster/modules) ATTUNE_HELM="$$(cd .. && go run ./cluster/cmd/cluster find helm)" $(call gotest,certmanager) -tags helm ./...
	$(call some,integration loops admission)

test-docs: programs ## What pages say: links, commands, values, words, references; their YAML on a real API server. Also part of test-unit and test-integration
	go test ./internal/laws ./cmd/kubectl-attune/...
	cd test && go test -count=1 $(UNVETTED) -run TestYAMLOfPages ./integration

test-loops-apiserver: programs ## Every story of test/loops on a real API server; for changes of test/sim/api
	cd test && ATTUNE_BACKEND=apiserver go test -count=1 -timeout 60m -run '$(value RUN)' ./loops

# Six clusters at once have more inotify instances than the kernel allows one user by default (128). Where that cannot be
# raised, the clusters run one after the other.
INOTIFY := /proc/sys/fs/inotify/max_user_instances

inotify:
	@[ "$$(cat $(INOTIFY))" -ge 512 ] || echo 512 2> /dev/null > $(INOTIFY) || echo "$(INOTIFY) stays at $$(cat $(INOTIFY))" >&2

test-cluster: programs inotify bin/gotestsum ## Tests of the clusters that the other tests start (RUN=name for one)
	cd test && $(call gotest-v,cluster) -count=1 -timeout 10m -run '$(value RUN)' ./cluster/...
	$(call some,cluster)

test-e2e: programs inotify bin/gotestsum ## Tests on a real kubelet (RUN=name for one); raises the limit of inotify instances to 512
	cd test && $(call gotest-v,e2e) -count=1 -p $$([ "$$(cat $(INOTIFY))" -ge 512 ] && echo 2 || echo 1) -timeout 50m -run '$(value RUN)' ./e2e ./quickstart
	$(call some,e2e)

# The release before is the newest tag before REF; where there is none, an older commit.
BEFORE ?= $(shell git describe --tags --abbrev=0 --match 'v*' '$(REF)^' 2> /dev/null || git rev-parse --short '$(REF)~40' 2> /dev/null)

test-release: VERSION := $(or $(VERSION),v0.1.0)
test-release: programs inotify release-rehearsal bin/gotestsum ## Install, upgrade, roll back and remove the rehearsed release and the one before (BEFORE=tag) on local clusters
	@[ -n '$(BEFORE)' ] || { echo "there is no release before $(REF): set BEFORE to a tag or a commit" >&2; exit 1; }
	$(call release,build) --version '$(if $(filter v%,$(BEFORE)),$(BEFORE),v0.0.0-g$(BEFORE))' --ref '$(BEFORE)' --out bin/release-before --platforms linux/$$(go env GOARCH)
	cd test && $(call gotest-v,release) -count=1 -timeout 50m -run '$(value RUN)' ./release -release $(CURDIR)/bin/release -before $(CURDIR)/bin/release-before

# Stories that give almost every metric a value.
RECORDED := TestAutoResizesARunningPodInPlace|TestOOMKillIsRevertedAndNotTriedAgain|TestInitialSeedsNewPodsOnly|TestEviction|TestForbiddenResize|TestNodeStrategy|TestRaiseBeforeKill

record-metrics: programs bin/gotestsum ## What the operator shows of itself in some stories on a real kubelet, which dashboards and alerts are tested with
	@rm -rf bin/e2e && mkdir -p bin/e2e
	cd test && ATTUNE_E2E_RIGHTS=$(CURDIR)/bin/e2e $(call gotest-v,record-metrics) -count=1 -timeout 40m -run '^($(RECORDED))$$' ./e2e
	cat bin/e2e/metrics-*.prom > test/tsdb/monitoring/testdata/e2e.prom

record-raises: programs bin/gotestsum ## Kills that raises avoid at many speeds, as docs/raise-before-kill.md has them; fifteen minutes
	cd test && $(call gotest-v,record-raises) -count=1 -timeout 40m -run 'TestRaisesAtManySpeeds' ./e2e -raises

test-v2: programs bin/gotestsum ## Tests on a node with cgroup v2, a VM whose kernel is built at first, which takes minutes
	@$(CLUSTER) build --vm-nodes 1 || echo "The kernel of a VM node is missing; the test that needs it says why." >&2
	cd test && $(call gotest-v,v2) -count=1 -timeout 10m -run 'TestCgroupV2' ./cluster -vm
	cd test && $(call gotest-v,v2-e2e) -count=1 -timeout 30m -run 'TestCgroupV2$$' ./e2e -vm
	cd test && $(call gotest-v,v2-demo) -count=1 -timeout 40m -run 'TestDemoOnCgroupV2' ./demo -vm

test-faults: programs bin/gotestsum ## Tests with container runtimes that refuse resizes, do half of them, are late or lie
	cd test && $(call gotest-v,faults) -count=1 -timeout 20m -run 'TestHostileRuntimes' ./e2e -faults

test-faults-vpa: programs bin/gotestsum ## The same container runtimes with the Vertical Pod Autoscaler, which is built at first
	cd test && $(call gotest-v,faults-vpa) -count=1 -timeout 40m -run 'TestVPAWithHostileRuntimes' ./e2e -vpa

test-argo: programs bin/gotestsum ## Argo Rollouts before Argo's own controller, which is built at first
	cd test && $(call gotest-v,argo) -count=1 -timeout 40m -run 'TestArgoRollouts' ./e2e -argo

test-keda: programs bin/gotestsum ## Targets of ScaledObjects before KEDA's own controller, which is built at first
	cd test && $(call gotest-v,keda) -count=1 -timeout 40m -run 'TestKEDA' ./e2e -keda

test-upstream: programs bin/gotestsum ## Kubernetes' own tests of in-place resize, with the operator and without it
	@$(CLUSTER) build --upstream
	cd test && $(call gotest-v,upstream) -count=1 -timeout 180m -run 'TestUpstream' ./e2e -upstream

# Each is a server's version and its kubelets'.
VERSIONS ?= v1.34:v1.34 v1.35:v1.35 v1.37:v1.37 v1.37:v1.34 v1.37:v1.35 v1.37:v1.36

test-matrix: bin/gotestsum ## The tests on real kubelets with other versions of Kubernetes (VERSIONS=server:kubelets ...), and with one that serves no resizes
	@failed=; for pair in $(VERSIONS); do echo "== $$pair"; \
		export ATTUNE_KUBERNETES=$${pair%:*} ATTUNE_KUBELETS=$${pair#*:}; \
		( $(CLUSTER) build --cert-manager ) && ( cd test && $(call gotest-v,e2e-$$pair) -count=1 -timeout 50m -run '$(value RUN)' ./e2e ) || failed="$$failed $$pair"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }
	cd test && $(call gotest-v,no-resize) -count=1 -timeout 30m -run 'TestWithoutResize' ./e2e -no-resize

compatibility: ## The results of test-e2e and test-matrix that are in bin/results, into docs/compatibility.md
	cd test && go run ./cmd/tally compatibility $(RESULTS) "$$(sed -n 's,^.*k8s.io/kubernetes \(v1\.[0-9]*\)\..*,\1,p' cluster/modules/kubernetes/go.mod)" e2e/testdata/matrix.yaml ../docs/compatibility.md

# The table of a matrix is in the log of its test; what passed is left out.
QUIETLY := | { grep -vE '^ *(===|---) (RUN|PAUSE|CONT|NAME|PASS)' || true; }

test-race: ## Unit tests under the race detector, where there is a C compiler
	@command -v gcc > /dev/null || { echo "SKIP test-race: the race detector needs gcc, which is not here"; exit 0; }; \
	export CGO_ENABLED=1; go test -race ./... && cd test && go test -race . ./demand/... ./demo/... ./deploy/... ./fault/... ./kubelet/... ./plane/... ./sim/api/... ./workload/...

test-fips: ## Tests of certificates, ports, webhooks and usage sources in Go's strict FIPS 140-3 mode
	GODEBUG=fips140=only go test ./certs ./webhook/... ./internal/ports ./usage/prometheus ./usage/embedded ./cmd/attune

test-fuzz: ## Every fuzz target for FUZZTIME
	@git grep -E '^func Fuzz' -- '*_test.go' | sed -E 's,^(.*)/[^/]*:func (Fuzz[A-Za-z]*).*,\1 \2,' | while read -r dir target; do \
		echo "$$dir $$target"; go test "./$$dir" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x; done

test-mutants: ## The long run against the product with the mend of one finding after the other taken out
	cd test && go run ./sim/mutants

test-long: programs test-race test-fips test-fuzz ## Race detector, FIPS mode and fuzzing; five tenants against a sixth; the operator killed at every call, in every story; fifty OOM kills, overloaded nodes, all attacks and outages of 20 minutes on real kubelets; a million fuzzed pods, a million containers with hostile usage, and 200,000 drawn policies and pods
	cd test && ATTUNE_BACKEND=apiserver ATTUNE_ONE_IN=1 go test -count=1 -timeout 180m -v ./loops $(QUIETLY)
	cd test && go test -count=1 -timeout 90m -v ./crash -all $(QUIETLY)
	cd test && go test -count=1 -timeout 60m -v ./tenants -minutes 360
	cd test && go test -count=1 -timeout 30m -v -run 'TestOOMKillsAreAnswered$$' ./e2e -oom-kills 50
	cd test && go test -count=1 -timeout 60m -v ./e2e -overload
	cd test && go test -count=1 -timeout 60m -v -run 'Test(Embedded|Outages)$$' ./e2e -outage
	cd test && go test -count=1 -timeout 60m -v -run 'TestAttacks$$' ./e2e -attacks
	cd test/admission && go test -count=1 -timeout 90m . -pods 1000000
	cd test/admission && go test -count=1 -timeout 90m ./replicas -fleets 1000000
	ATTUNE_DRAWS=200000 go test -count=1 -timeout 60m -run 'TestDrawnPodsWithCPULimitRules|TestAContainerHasTheSettingsOfItsOwnPolicy|TestNoDecisionChangesWhatIsNotSized' ./webhook/pod ./internal/policy ./tuning
	cd test && ATTUNE_DRAWS=200000 go test -count=1 -timeout 60m -run 'TestAdmissionLeavesContainersThatAreNotSized' ./field
	cd test && ATTUNE_HOSTILE_CONTAINERS=1000000 go test -count=1 -timeout 60m -v -run 'TestHostileSeries' ./field $(QUIETLY)
	cd test && go test -count=1 -timeout 120m -v -run 'TestRetargetUnderAttack' ./sim -sim.retargets 300 $(QUIETLY)
	cd test && go test -count=1 -timeout 0 -v -run 'TestSeeds' ./sim -sim.seed 1 -sim.seeds 1000000 -sim.hours $(HOURS) $(QUIETLY)

bench: ## Benchmarks beside their ceilings, and beside VPA's code on the same work
	cd test && go run ./bench

backtest: ## Every algorithm that sizes containers on every trace of a folder, as tables (TRACES=folder; a trace of the project's own where there is none)
	cd test && go run ./scoreboard -traces '$(abspath $(or $(TRACES),../shared/traces))'

packed: ## Strategies on the pods of a trace, packed onto nodes (TRACES=folder; without it a trace of the project's own)
	cd test && go test -count=1 -v ./packed $(if $(TRACES),-traces '$(abspath $(TRACES))')

hpa-replicas: ## Replicas of HPAs with the usage of traces, by upstream's own controller, with requests that attune's proof allows (TRACES=folder)
	cd test/admission && go test -count=1 -timeout 120m -v -run 'TestTraces' ./replicas -workloads 40 -traces '$(abspath $(or $(TRACES),../shared/traces))' $(QUIETLY)

load: programs ## The operator before a real API server with many played nodes: what it takes (PARTS=0.01,0.1 of 150,000 pods)
	cd test && go run ./load -parts '$(PARTS)'

# The programs of the test cluster take minutes to build where none is cached: no test waits for them.
programs:
	@$(CLUSTER) build --cert-manager || echo "Some programs of the test cluster are missing; the tests that need them say so." >&2

##@ Build it

build: ## The operator and the plugin, into bin/
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

bin/cosign: tools/cosign/go.mod
	cd tools/cosign && go build -ldflags '-s -w' -o ../../bin/cosign github.com/sigstore/cosign/v3/cmd/cosign

bin/release-tool: $(wildcard tools/release/*.go) tools/release/go.mod
	cd tools/release && go build -o ../../bin/release-tool .

# $(call release,VERB) makes, publishes or rehearses the release VERSION of the commit REF, in bin/release. URL is the address of
# the repository, and RELEASE_PLATFORMS=linux/amd64 builds for these platforms only.
release = bin/release-tool $(1) --version '$(VERSION)' --ref '$(REF)' --out bin/release --registry '$(REGISTRY)' --helm $(HELM) --cosign $(CURDIR)/bin/cosign --url '$(URL)' $(if $(RELEASE_PLATFORMS),--platforms '$(RELEASE_PLATFORMS)')

release-files: bin/release-tool ## All files of a release, and image and chart as an OCI layout, into bin/release (VERSION=v0.1.0 REF=commit)
	$(call release,build)

release-publish: bin/release-tool bin/cosign ## Push image and chart of bin/release to REGISTRY, and sign them; keyless, or with KEY=cosign.key
	$(call release,publish) $(if $(KEY),--key '$(KEY)')

release-rehearsal: bin/release-tool bin/cosign ## Build a release twice, publish it to a registry in the process, and verify it as users do; nothing is pushed (VERSION=v0.1.0)
	$(call release,rehearse)

image: ## The operator's image, as an archive in bin/
	@cd test && LDFLAGS='$(LDFLAGS)' go run ./cmd/deploy --image '$(CURDIR)/bin/image'

rbac: ## What a default install may do, as tables, into docs/security-model.md
	ATTUNE_HELM="$$(cd test && go run ./cluster/cmd/cluster find helm)" go test -count=1 -tags helm ./charts -run TestRightsInTheDocs -update

values: ## The values of the chart, from the comments of values.yaml, into its README and its schema
	go test -count=1 -tags helm ./charts -run 'TestReadme|TestEveryValueIsDescribed' -update

mixin: ## Dashboards and alerts as files for Grafana and Prometheus without Helm, into bin/mixin
	@rm -rf bin/mixin && mkdir -p bin/mixin/dashboards bin/mixin/rules
	cp charts/attune/dashboards/*.json bin/mixin/dashboards/ && cp charts/attune/alerts/*.yaml bin/mixin/rules/

generate: ## CRDs, deep copies, the chart's copy of the CRDs, and the licenses of linked modules
	cd tools && go build -o ../bin/controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen
	bin/controller-gen object paths=./api/... crd:crdVersions=v1 output:crd:artifacts:config=config/crd
	# An exponent of more digits takes minutes to read. In lists the API server has no budget for a rule about it.
	sed -i -e 's/\[eE\](\\+|-)?((\[0-9\]+(\\\.\[0-9\]\*)?)|(\\\.\[0-9\]+))/[eE](\\+|-)?[0-9]{1,2}/' \
		-e 's/((\[0-9\]+(\\\.\[0-9\]\*)?)|(\\\.\[0-9\]+))/(([0-9]{1,32}(\\.[0-9]{0,32})?)|(\\.[0-9]{1,32}))/' config/crd/*.yaml
	bin/controller-gen object paths=./internal/workload
	mkdir -p charts/attune/crd-files && cp config/crd/*.yaml charts/attune/crd-files/
	cd test && go run ./cmd/notices .. $(PLATFORMS) > ../bin/THIRD_PARTY_NOTICES && mv ../bin/THIRD_PARTY_NOTICES ../

bin/golangci-lint: tools/lint/go.mod
	cd tools/lint && go build -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/actionlint: tools/go.mod
	cd tools && go build -o ../bin/actionlint github.com/rhysd/actionlint/cmd/actionlint

workflows: bin/actionlint ## The workflows as actionlint sees them; the same with and without shellcheck on the machine
	bin/actionlint -shellcheck= -pyflakes=

lint: score workflows bin/golangci-lint bin/karpenter/go.mod ## gofmt over all, actionlint over the workflows, golangci-lint (.golangci.yml) over the product with its tests, test/{browser,certmanager,tsdb}, go vet over the other modules, kube-score over the chart
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these files"; exit 1; }
	export GOMEMLIMIT=3GiB; bin/golangci-lint run ./... && for module in browser certmanager tsdb; do ( cd test/$$module && ../../bin/golangci-lint run ./... ) || exit 1; done
	for module in test test/admission test/karpenter test/peers tools/release; do ( cd $$module && go vet ./... ) || exit 1; done

# What kube-score calls critical and is meant to be so: images are named by their version (IfNotPresent), and a CPU limit
# would throttle who is asked for a pod's size while the pod waits. It warns of two more things: a topology spread takes
# the place of an anti-affinity, and where the API server and the kubelets are, no policy of egress can say for all.
SCORED := --ignore-test container-image-pull-policy --ignore-container-cpu-limit
HELM = "$$(cd test && go run ./cluster/cmd/cluster find helm)"

bin/kube-score: tools/score/go.mod
	cd tools/score && go build -o ../../bin/kube-score github.com/zegl/kube-score/cmd/kube-score

score: bin/kube-score ## The chart as kube-score sees it: nothing critical
	@$(HELM) template attune charts/attune --namespace attune-system --set networkPolicy.enabled=true > bin/score.yaml
	@bin/kube-score score bin/score.yaml --output-format ci $(SCORED) > bin/score.txt || status=$$?; grep -vE '^\[(OK|SKIPPED)\]' bin/score.txt || true; exit $${status:-0}

verify: generate tidy subjects lint ## Generated files and go.mod files are up to date, commit subjects keep their form, lint passes
	@git diff --exit-code -- api config charts internal THIRD_PARTY_NOTICES || { echo "run make generate and commit the result"; exit 1; }

tidy: bin/karpenter/go.mod bin/keda/go.mod ## go.mod and go.sum of every module are as `go mod tidy` writes them
	@failed=; for module in $$(git ls-files '*go.mod'); do ( cd $$(dirname $$module) && go mod tidy -diff ) || failed="$$failed $$(dirname $$module)"; done; \
	[ -z "$$failed" ] || { echo "run go mod tidy in:$$failed" >&2; exit 1; }

# Older commits have other subjects. A shallow clone has some of the newer ones: all that are there are checked.
SUBJECTS_SINCE := 2026-11-28T15:30:00Z

subjects: ## Commit subjects are "area: imperative", 72 characters at most
	@git log --no-merges --since=$(SUBJECTS_SINCE) --format='%h %s' | { grep -vE '^[0-9a-f]+ [a-z][A-Za-z0-9/., -]*: [a-z].{0,}[^.]$$' || true; } | sed 's/^/not "area: imperative": /' > bin/subjects.txt
	@git log --no-merges --since=$(SUBJECTS_SINCE) --format='%h %s' | { grep -E '^[0-9a-f]+ .{73,}' || true; } | sed 's/^/longer than 72 characters: /' >> bin/subjects.txt
	@cat bin/subjects.txt; [ ! -s bin/subjects.txt ]

bin/govulncheck: tools/vuln/go.mod
	cd tools/vuln && go build -o ../../bin/govulncheck golang.org/x/vuln/cmd/govulncheck

# The database is a module like any other: its version is pinned in tools/vuln and names its date. To renew it:
#   cd tools/vuln && go get golang.org/x/vulndb@latest && go mod tidy
VULNDB_DAYS := 60

vulncheck: bin/govulncheck ## Known vulnerabilities in code that the product calls, by the Go vulnerability database that tools/vuln pins
	@version=$$(cd tools/vuln && go list -m -f '{{.Version}}' golang.org/x/vulndb) && stamp=$${version#*-} && date=$${stamp:0:8} && \
	days=$$(( ($$(date +%s) - $$(date -d $$date +%s)) / 86400 )) && echo "Go vulnerability database of $$(date -d $$date +%F), $$days days old" && \
	{ [ $$days -le $(VULNDB_DAYS) ] || { echo "The database is older than $(VULNDB_DAYS) days: run cd tools/vuln && go get golang.org/x/vulndb@latest && go mod tidy" >&2; exit 1; }; } && \
	folder=$$(cd tools/vuln && go mod download -json golang.org/x/vulndb | sed -n 's/^\t"Dir": "\(.*\)",/\1/p') && \
	GOMEMLIMIT=3GiB bin/govulncheck -db "file://$$folder/data/osv" ./...

help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: coverage hpa-replicas test-docs compatibility workflows lane-clusters lane-kubelets lane-background tidy subjects vulncheck programs inotify record-metrics record-raises mixin demo cluster-up cluster-down deploy ui test test-unit test-karpenter chromium test-browser test-sim test-integration test-loops-apiserver test-cluster test-e2e test-v2 test-faults test-faults-vpa test-argo test-keda test-upstream test-release test-matrix test-mutants test-race test-fips test-fuzz test-long bench packed backtest load build release-files release-publish release-rehearsal image rbac generate score lint verify help values
