package cluster

import (
	"fmt"
	"os"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/tools"
)

// components describes the processes of a cluster to those who start them.
type components struct {
	options Options
	tools   tools.Tools
	dir     string
}

func (x components) path(format string, args ...any) string {
	return x.dir + "/" + fmt.Sprintf(format, args...)
}

func (x components) pki(file string) string { return x.path("pki/%s", file) }

func (x components) describe() (spec.Cluster, error) {
	c := spec.Cluster{Name: x.options.Name, Dir: x.dir, Env: x.tools.Env(x.path("home"))}
	first := []struct {
		program string
		args    []string
	}{
		{"etcd", x.etcd()},
		{"kube-apiserver", x.apiServer()},
		{"kube-controller-manager", x.controllerManager()},
		{"kube-scheduler", x.scheduler()},
	}
	for i, p := range first {
		path, err := x.tools.Find(p.program)
		if err != nil {
			return c, err
		}
		process := spec.Command(p.program, path, p.args...)
		if often := os.Getenv("GOGC"); often != "" && p.program == "kube-apiserver" {
			process.Env = []string{"GOGC=" + often}
		}
		if i < 2 { // the API server waits for etcd by itself
			c.First = append(c.First, process)
		} else {
			c.Then = append(c.Then, process)
		}
	}
	c.Then = append(c.Then, inside.Pressure(x.dir, x.pki("admin.conf")))
	for i := 1; i <= x.options.Nodes; i++ {
		n, err := x.node(i)
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c, nil
}

// etcd does not sync its files: a test cluster does not survive the machine.
func (x components) etcd() []string {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []string{
		"--data-dir=" + x.path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--unsafe-no-fsync", "--log-level=warn",
	}
}

// apiServer reaches webhooks without a kube-proxy of its own because it looks
// up a Service's endpoints itself (aggregator routing).
func (x components) apiServer() []string {
	return append([]string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--secure-port=6443", "--bind-address=0.0.0.0", "--advertise-address=" + spec.ControlPlaneIP,
		"--service-cluster-ip-range=" + spec.ServiceCIDR,
		"--client-ca-file=" + x.pki("ca.crt"),
		"--tls-cert-file=" + x.pki("apiserver.crt"), "--tls-private-key-file=" + x.pki("apiserver.key"),
		"--service-account-key-file=" + x.pki("sa.pub"), "--service-account-signing-key-file=" + x.pki("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--kubelet-client-certificate=" + x.pki("kubelet-client.crt"), "--kubelet-client-key=" + x.pki("kubelet-client.key"),
		"--kubelet-certificate-authority=" + x.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--enable-aggregator-routing=true",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged", "--profiling=false", "--event-ttl=2h",
	}, x.options.APIServerArgs...)
}

// controllerManager and scheduler must not be held back by client-side rate
// limits: with the default ones nodes stay tainted for seconds after they are ready.
func (x components) controllerManager() []string {
	return []string{
		"--kubeconfig=" + x.pki("controller-manager.conf"),
		"--service-account-private-key-file=" + x.pki("sa.key"), "--root-ca-file=" + x.pki("ca.crt"),
		"--cluster-signing-cert-file=" + x.pki("ca.crt"), "--cluster-signing-key-file=" + x.pki("ca.key"),
		"--use-service-account-credentials", "--leader-elect=false",
		"--node-monitor-period=500ms", "--node-monitor-grace-period=8s", "--allocate-node-cidrs=false",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
	}
}

func (x components) scheduler() []string {
	return []string{
		"--kubeconfig=" + x.pki("scheduler.conf"),
		"--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000",
	}
}

func (x components) node(i int) (spec.Node, error) {
	name := spec.NodeName(i)
	n := spec.Node{Index: i, Binds: x.binds(i)}
	programs := map[string]string{}
	for _, p := range []string{"containerd", "ctr", "kube-proxy"} {
		path, err := x.tools.Find(p)
		if err != nil {
			return n, err
		}
		programs[p] = path
	}
	n.Runtime = spec.Command(name+"-containerd", programs["containerd"], "--config", x.path("%s/containerd.toml", name))
	n.Import = []spec.Process{spec.Command(name+"-import", programs["ctr"], "-n", "k8s.io", "images", "import", x.tools.BaseImages())}
	n.Then = []spec.Process{
		spec.Command(kubeletName(i), x.tools.KubeletProgram(),
			"--config", x.path("%s/%s", name, kubeletConfig), "--kubeconfig", x.pki(name+".conf"),
			"--hostname-override", name, "--root-dir", "/var/lib/kubelet", "--node-ip", spec.NodeIP(i),
			"--housekeeping-interval=5s", "--v=2"), // fresher usage metrics than the default 10 s
		spec.Command(name+"-kube-proxy", programs["kube-proxy"], "--config", x.path("%s/proxy.yaml", name)),
	}
	if x.hasProxy(i) {
		path, err := x.tools.Find("criproxy")
		if err != nil {
			return n, err
		}
		proxy := spec.Command(name+"-criproxy", path, "--listen", proxySocket, "--runtime", runtimeSocket, "--faults", x.path("%s/%s", name, faultFile))
		n.Then = append([]spec.Process{proxy}, n.Then...)
	}
	if x.options.isVM(i) {
		s, err := x.options.vmSize()
		if err != nil {
			return n, err
		}
		kernel := inside.VM(x.tools.KernelProgram(), x.dir, i, s.pretendKiB/1024)
		n.VM = &kernel
	}
	return n, nil
}

// The kubelet's end and the runtime's end of what is said between them.
const (
	runtimeSocket = "/run/containerd/containerd.sock"
	proxySocket   = "/run/criproxy.sock"
)

func (x components) hasProxy(i int) bool { return x.options.CRIProxy && !x.options.isVM(i) }

// runtimeOf node i's kubelet.
func (x components) runtimeOf(i int) string {
	if x.hasProxy(i) {
		return proxySocket
	}
	return runtimeSocket
}

// sysctls are what the kubelet wants to set for the whole machine. It finds
// files with these values in their place and leaves the machine alone.
var sysctls = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func (x components) binds(i int) map[string]string {
	name := spec.NodeName(i)
	if x.options.isVM(i) {
		return map[string]string{
			"/var/log":      x.path("%s/log", name),
			"/proc/meminfo": x.path("vm/meminfo"),
			"/proc/cpuinfo": x.path("vm/cpuinfo"),
		}
	}
	binds := map[string]string{
		"/var/lib": x.path("%s/lib", name),
		"/var/log": x.path("%s/log", name),
	}
	for setting := range sysctls {
		binds["/proc/sys/"+setting] = x.path("sysctl/%s", setting)
	}
	if x.pretends() {
		binds["/proc/meminfo"] = x.path("meminfo")
	}
	if _, wanted := withClock(); wanted {
		binds["/proc/cpuinfo"] = x.path("cpuinfo")
	}
	return binds
}

func (x components) pretends() bool {
	kib, _, err := machineMemory()
	if err != nil {
		return false
	}
	s, err := x.options.size(kib)
	return err == nil && s.pretendKiB != 0
}
