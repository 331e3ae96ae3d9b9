package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/pki"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/tools"
	"sigs.k8s.io/yaml"
)

// write makes every file the cluster's processes read.
func (x components) write() error {
	for _, dir := range []string{"log", "home", "etcd", "prometheus"} {
		if err := os.MkdirAll(x.path("%s", dir), 0o700); err != nil {
			return err
		}
	}
	if err := pki.Write(x.path("pki"), x.options.Nodes); err != nil {
		return err
	}
	for setting, value := range sysctls {
		if err := writeFile(x.path("sysctl/%s", setting), value+"\n"); err != nil {
			return err
		}
	}
	machine, meminfo, err := machineMemory()
	if err != nil {
		return err
	}
	s, err := x.options.size(machine)
	if err != nil {
		return err
	}
	pretend := func(kib int64) string { return strings.Replace(meminfo, fmt.Sprint(machine), fmt.Sprint(kib), 1) }
	if err := writeFile(x.path("meminfo"), pretend(s.pretendKiB)); err != nil {
		return err
	}
	if cpus, wanted := withClock(); wanted {
		if err := writeFile(x.path("cpuinfo"), cpus); err != nil {
			return err
		}
	}
	for i := 1; i <= x.options.Nodes-x.options.VMNodes; i++ {
		if err := x.writeNode(i, s); err != nil {
			return err
		}
	}
	if x.options.VMNodes == 0 {
		return nil
	}
	if s, err = x.options.vmSize(); err != nil {
		return err
	}
	return x.writeVMs(s, pretend(s.pretendKiB))
}

// withClock is what the kernel says of its CPUs with how fast they are, wanted where it does not say that itself: a kubelet
// does not start then (cAdvisor, but on ARM).
func withClock() (cpus string, wanted bool) {
	text, err := os.ReadFile("/proc/cpuinfo")
	cpus = string(text)
	if err != nil || runtime.GOARCH != "amd64" || strings.Contains(cpus, "cpu MHz") {
		return cpus, false
	}
	return strings.ReplaceAll(cpus, "vendor_id\t", "cpu MHz\t\t: 2000.000\nvendor_id\t"), true
}

// vmCPU is what the kubelet must know of a VM's CPU, whose kernel says less.
const vmCPU = "processor\t: 0\nvendor_id\t: user-mode Linux\nmodel name\t: user-mode Linux\ncpu MHz\t\t: 2000.000\n" +
	"cache size\t: 1024 KB\nphysical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1\n"

// writeVMs makes the files of VM nodes. They believe to have all of the memory that was asked for; some of it is
// their kernel's.
func (x components) writeVMs(s size, meminfo string) error {
	if err := writeFile(x.path("vm/meminfo"), meminfo); err != nil {
		return err
	}
	if err := writeFile(x.path("vm/cpuinfo"), vmCPU); err != nil {
		return err
	}
	for i := x.options.Nodes - x.options.VMNodes + 1; i <= x.options.Nodes; i++ {
		if err := x.writeNode(i, s); err != nil {
			return err
		}
	}
	return inside.CopySelf(x.dir, inside.VMRole)
}

func (x components) writeNode(i int, s size) error {
	name := spec.NodeName(i)
	for _, dir := range []string{"lib", "log", "cni"} {
		if err := os.MkdirAll(x.path("%s/%s", name, dir), 0o755); err != nil {
			return err
		}
	}
	if err := writeFile(x.path("%s/containerd.toml", name), x.containerd(name)); err != nil {
		return err
	}
	for registry, mirror := range x.options.Mirrors {
		hosts := fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", "https://"+registry, mirror)
		if err := writeFile(x.path("%s/registries/%s/hosts.toml", name, registry), hosts); err != nil {
			return err
		}
	}
	network, err := json.Marshal(podNetwork(i))
	if err != nil {
		return err
	}
	if err := writeFile(x.path("%s/cni/10-pods.conflist", name), string(network)); err != nil {
		return err
	}
	kubelet := x.kubelet(i, s)
	if x.options.KubeletConfig != nil {
		x.options.KubeletConfig(i, kubelet)
	}
	if err := writeYAML(x.path("%s/%s", name, kubeletConfig), kubelet); err != nil {
		return err
	}
	return writeYAML(x.path("%s/proxy.yaml", name), x.proxy(name))
}

// containerd neither lowers OOM scores nor uses AppArmor, so that it runs
// where we lack the rights to.
func (x components) containerd(node string) string {
	return fmt.Sprintf(`version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = %q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  sandbox_image = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
`, x.path("%s/lib/opt", node), tools.PauseImage, x.tools.CNI, x.path("%s/cni", node), x.path("%s/registries", node))
}

type object = map[string]any

func podNetwork(i int) object {
	return object{
		"cniVersion": "1.0.0",
		"name":       "pods",
		"plugins": []object{{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
			"ipam": object{
				"type":   "host-local",
				"ranges": [][]object{{{"subnet": spec.NodePodCIDR(i)}}},
				"routes": []object{{"dst": "0.0.0.0/0"}},
			},
		}},
	}
}

// kubelet limits the pods' cgroup to what the node offers, so a small node
// runs out of memory as a small machine does.
func (x components) kubelet(i int, s size) object {
	name := spec.NodeName(i)
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"address":    "0.0.0.0",
		"port":       10250,
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": x.pki("ca.crt")},
		},
		"authorization":                 object{"mode": "Webhook"},
		"tlsCertFile":                   x.pki(name + ".crt"),
		"tlsPrivateKeyFile":             x.pki(name + ".key"),
		"cgroupDriver":                  "cgroupfs",
		"cgroupRoot":                    "/" + spec.CgroupRoot(x.options.Name, i),
		"failCgroupV1":                  false,
		"failSwapOn":                    false,
		"containerRuntimeEndpoint":      "unix://" + x.runtimeOf(i),
		"volumePluginDir":               x.path("%s/lib/volumeplugins", name),
		"clusterDomain":                 "cluster.local",
		"clusterDNS":                    []string{spec.DNSIP}, // nothing answers there
		"resolvConf":                    "",
		"enforceNodeAllocatable":        []string{"pods"},
		"systemReserved":                object{"cpu": fmt.Sprintf("%dm", s.reservedMilliCPU), "memory": fmt.Sprintf("%dKi", s.reservedKiB)},
		"localStorageCapacityIsolation": false,
		"evictionHard": object{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
		"nodeStatusUpdateFrequency":   "2s",
		"syncFrequency":               "5s",
		"volumeStatsAggPeriod":        "-1s",
		"serializeImagePulls":         false,
	}
}

// proxy leaves the conntrack settings alone, which only the machine itself may change.
func (x components) proxy(node string) object {
	return object{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             "iptables",
		"clusterCIDR":      spec.PodCIDR,
		"hostnameOverride": node,
		"clientConnection": object{"kubeconfig": x.pki("proxy.conf")},
		"conntrack":        object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"iptables":         object{"minSyncPeriod": "100ms", "syncPeriod": "30s"},
	}
}

func writeYAML(path string, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(path, string(data))
}

func writeFile(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}
