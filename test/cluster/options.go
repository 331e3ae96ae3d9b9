package cluster

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"

	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/tools"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Options says what kind of cluster to start. The zero value is one node.
type Options struct {
	// Name tells clusters on one machine apart. Default: one that no other has; with Dir, always the same one for that directory.
	Name string
	// Nodes is how many nodes there are. Default 1.
	Nodes int
	// VMNodes is how many of them, the last ones, are VMs with a kernel of their own, which has cgroup v2 only, and
	// one CPU: see [VMUnavailable]. Their kernel is built once, which takes minutes.
	VMNodes int
	// Version of Kubernetes, as in "v1.36.3" or "v1.36". Default: $ATTUNE_KUBERNETES, or that of modules/kubernetes/go.mod.
	// KubeletVersion is that of the nodes' kubelets. Default: $ATTUNE_KUBELETS, or the same.
	Version, KubeletVersion string

	// NodeCPU and NodeMemory are what each node can give to pods. Default
	// "1500m" and "3Gi". Memory may exceed the machine's, CPU may not. A VM node
	// gives one CPU at most.
	NodeCPU, NodeMemory string
	// APIServerArgs are added to the API server's own and win over them.
	APIServerArgs []string
	// KubeletConfig may change the configuration of each node's kubelet.
	KubeletConfig func(node int, config map[string]any)

	// Prometheus is started if set, with Backfill as its past.
	Prometheus bool
	Backfill   []Series
	// CertManager is started if set.
	CertManager bool
	// Upstream gets Kubernetes' own tests of in-place resize ready: see [Cluster.Upstream].
	Upstream bool
	// VPA gets the Vertical Pod Autoscaler's programs ready, but for its recommender.
	VPA bool
	// Argo gets the controller of Argo Rollouts ready.
	Argo bool
	// KEDA gets KEDA's controller of ScaledObjects ready.
	KEDA bool

	// Mirrors are addresses from which nodes pull images instead, by registry: {"ghcr.io": "http://172.30.0.1:5000"}.
	Mirrors map[string]string
	// CRIProxy puts a proxy between kubelets and their container runtimes (but on VM nodes), for [Cluster.SpoilResizes].
	CRIProxy bool

	// Detach lets the cluster outlive this process; else it dies with it,
	// however it ends.
	Detach bool
	// Dir, if set, receives bin/kubectl, bin/helm, bin/enter and what Attach needs.
	Dir string
	// Artifacts, if set, receives the logs when the cluster is stopped.
	Artifacts string
	// Progress is told what is being built. Default: standard error.
	Progress io.Writer
}

var (
	validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)
	started   atomic.Int64
)

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" && o.Dir != "" {
		name, err := nameOf(o.Dir)
		if err != nil {
			return o, err
		}
		o.Name = name
	}
	if o.Name == "" {
		o.Name = fmt.Sprintf("p%d-%d", os.Getpid(), started.Add(1))
	}
	if !validName.MatchString(o.Name) {
		return o, fmt.Errorf("%q cannot be a cluster's name, use up to 32 lower-case letters, digits and dashes", o.Name)
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Nodes < 0 || o.Nodes > spec.MaxNodes {
		return o, fmt.Errorf("a cluster cannot have %d nodes, use 1 to %d", o.Nodes, spec.MaxNodes)
	}
	if o.VMNodes < 0 || o.VMNodes > o.Nodes {
		return o, fmt.Errorf("of %d nodes %d cannot be VMs", o.Nodes, o.VMNodes)
	}
	o.NodeCPU = orDefault(o.NodeCPU, "1500m")
	o.NodeMemory = orDefault(o.NodeMemory, "3Gi")
	o.Version = orDefault(o.Version, os.Getenv("ATTUNE_KUBERNETES"))
	o.KubeletVersion = orDefault(o.KubeletVersion, os.Getenv("ATTUNE_KUBELETS"))
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	return o, nil
}

// nameOf the cluster of a directory, which need not exist: clusters of two checkouts never have the same name.
func nameOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	return fmt.Sprintf("local-%.4x", sha256.Sum256([]byte(dir))), nil
}

// wanted are the programs of such a cluster.
func (o Options) wanted() tools.Wanted {
	return tools.Wanted{Version: o.Version, KubeletVersion: o.KubeletVersion, CertManager: o.CertManager, CRIProxy: o.CRIProxy, Upstream: o.Upstream, VPA: o.VPA, Argo: o.Argo, KEDA: o.KEDA, VM: o.VMNodes > 0}
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// size is what one node keeps for itself, so that the rest is as asked for.
type size struct {
	reservedMilliCPU int64
	reservedKiB      int64
	// pretendKiB is the memory the node believes to have; 0: what it has.
	pretendKiB int64
}

func (o Options) size(machineKiB int64) (size, error) {
	cpu, err := resource.ParseQuantity(o.NodeCPU)
	if err != nil {
		return size{}, fmt.Errorf("NodeCPU %q: %w", o.NodeCPU, err)
	}
	memory, err := resource.ParseQuantity(o.NodeMemory)
	if err != nil {
		return size{}, fmt.Errorf("NodeMemory %q: %w", o.NodeMemory, err)
	}
	s := size{
		reservedMilliCPU: int64(runtime.NumCPU())*1000 - cpu.MilliValue(),
		reservedKiB:      machineKiB - memory.Value()/1024,
	}
	if s.reservedMilliCPU < 0 {
		return size{}, fmt.Errorf("a node cannot offer %s CPU on a machine with %d, use more nodes", o.NodeCPU, runtime.NumCPU())
	}
	if s.reservedKiB < 0 {
		s.pretendKiB = memory.Value()/1024 + 1<<20
		s.reservedKiB = 1 << 20
	}
	return s, nil
}

// vmReservedKiB is what a VM node keeps for its kernel, its own processes and, in memory too, /var/lib.
const vmReservedKiB = 1 << 20

// vmSize is the size of a VM node, which has one CPU and as much memory as it takes.
func (o Options) vmSize() (size, error) {
	cpu, err := resource.ParseQuantity(o.NodeCPU)
	if err != nil {
		return size{}, fmt.Errorf("NodeCPU %q: %w", o.NodeCPU, err)
	}
	memory, err := resource.ParseQuantity(o.NodeMemory)
	if err != nil {
		return size{}, fmt.Errorf("NodeMemory %q: %w", o.NodeMemory, err)
	}
	return size{
		reservedMilliCPU: max(0, 1000-cpu.MilliValue()),
		reservedKiB:      vmReservedKiB,
		pretendKiB:       memory.Value()/1024 + vmReservedKiB,
	}, nil
}

// isVM reports whether node i is one.
func (o Options) isVM(i int) bool { return i > o.Nodes-o.VMNodes }

// machineMemory is the machine's memory in KiB, and the file that says so.
func machineMemory() (kib int64, meminfo string, err error) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, "", err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	if _, err := fmt.Sscanf(first, "MemTotal: %d kB", &kib); err != nil {
		return 0, "", fmt.Errorf("reading the machine's memory from %q: %w", first, err)
	}
	return kib, string(data), nil
}
