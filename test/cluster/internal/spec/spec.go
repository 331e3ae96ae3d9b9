// Package spec is what the harness and the processes inside a cluster's
// namespaces tell each other: a plain description, written once as JSON before
// the cluster starts and never changed afterwards.
package spec

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Every cluster has the same addresses: each lives in network namespaces of
// its own, which no route leaves.
const (
	ControlPlaneIP = "172.30.0.1"
	ServiceCIDR    = "10.96.0.0/16"
	ServiceIP      = "10.96.0.1"
	DNSIP          = "10.96.0.10"
	PodCIDR        = "10.244.0.0/16"
	APIServer      = "https://" + ControlPlaneIP + ":6443"
	Prometheus     = ControlPlaneIP + ":9090"
	Pressure       = ControlPlaneIP + ":9101"
	// VMControlPort is where pid 1 of a VM node listens, at the node's address: no file of ours is a socket in a VM.
	VMControlPort = 9102
	// MaxNodes keeps 172.30.0.1N and 10.244.N.0/24 valid.
	MaxNodes = 200
)

// NodeName is the name of node i; nodes count from 1.
func NodeName(i int) string { return fmt.Sprintf("node%d", i) }

// NodeIP is the address of node i on the cluster's bridge.
func NodeIP(i int) string { return fmt.Sprintf("172.30.0.%d", 10+i) }

// NodePodCIDR is the range node i gives its pods' addresses from.
func NodePodCIDR(i int) string { return fmt.Sprintf("10.244.%d.0/24", i) }

// CgroupPrefix begins the names of all cgroups of the named cluster.
func CgroupPrefix(name string) string { return "e2e-" + name + "-n" }

// CgroupRoot is the cgroup, below every controller, that holds node i's pods.
func CgroupRoot(name string, i int) string { return fmt.Sprintf("%s%d", CgroupPrefix(name), i) }

// Cluster says which processes make up a cluster, in the order they start.
type Cluster struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	// Env is the whole environment of every process.
	Env []string `json:"env"`
	// First start at once, Then as soon as the API server is ready.
	First []Process `json:"first"`
	Then  []Process `json:"then"`
	Nodes []Node    `json:"nodes"`
}

// Node is one machine of the cluster: the namespaces it makes and what runs in them.
type Node struct {
	Index int `json:"index"`
	// Binds are mounted over files of the node's view: target to source.
	Binds map[string]string `json:"binds"`
	// Runtime starts first; Import is repeated until it succeeds, which also
	// proves the runtime ready; Then start once the API server is ready.
	Runtime Process   `json:"runtime"`
	Import  []Process `json:"import"`
	Then    []Process `json:"then"`
	// VM is the node's kernel, a process, where the node has one of its own.
	VM *Process `json:"vm,omitempty"`
}

// Process is a program with its arguments; its output goes to log/<Name>.log.
type Process struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"` // with the program's own name first
	// Env is added to the cluster's.
	Env []string `json:"env,omitempty"`
}

// Exec asks pid 1 of a VM node to run a program.
type Exec struct {
	Args  []string `json:"args"` // with the program's path first
	Env   []string `json:"env"`
	Stdin []byte   `json:"stdin"`
}

// Result is what became of it.
type Result struct {
	Code   int    `json:"code"`
	Stdout []byte `json:"stdout"`
	Stderr []byte `json:"stderr"`
}

// Command is a Process whose own name is its path's last element.
func Command(name, path string, args ...string) Process {
	return Process{Name: name, Path: path, Args: append([]string{filepath.Base(path)}, args...)}
}

// Path names a file below the cluster's directory.
func (c Cluster) Path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

// Write stores the description where Read finds it.
func (c Cluster) Write() error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.Path("spec.json"), data, 0o600)
}

// Read loads the description of the cluster in dir.
func Read(dir string) (Cluster, error) {
	var c Cluster
	data, err := os.ReadFile(filepath.Join(dir, "spec.json"))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("the description of the cluster in %s cannot be read, remove that directory: %w", dir, err)
	}
	return c, nil
}
