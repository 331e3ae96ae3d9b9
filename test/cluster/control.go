package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/spec"
)

// Process is what is known of one of the cluster's processes.
type Process = inside.Status

// Processes lists the control plane's processes and the nodes' first ones.
// Their pids are those of the cluster's own pid namespace.
func (c *Cluster) Processes(ctx context.Context) ([]Process, error) {
	var all []Process
	return all, c.control(ctx, 0, http.MethodGet, "/processes", nil, &all)
}

func (c *Cluster) startProcess(ctx context.Context, p spec.Process) error {
	return c.control(ctx, 0, http.MethodPost, "/start", p, nil)
}

func (c *Cluster) stopProcess(ctx context.Context, name string) error {
	return c.control(ctx, 0, http.MethodPost, "/stop?name="+url.QueryEscape(name), nil, nil)
}

func (c *Cluster) killProcess(ctx context.Context, name string) error {
	return c.control(ctx, 0, http.MethodPost, "/stop?now=1&name="+url.QueryEscape(name), nil, nil)
}

// control talks to the first process of node i, or of the cluster if i is 0.
func (c *Cluster) control(ctx context.Context, i int, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://cluster"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dialControl(ctx, i) }
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking cluster %s: %w", c.Name, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(response.Body)
		return fmt.Errorf("cluster %s refused %s: %s", c.Name, path, strings.TrimSpace(string(reason)))
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(out)
}

func (c *Cluster) dialControl(ctx context.Context, i int) (net.Conn, error) {
	switch {
	case i == 0:
		return dialSocket(ctx, c.dir)
	case c.isVM(i):
		return c.Dial(ctx, "tcp", inside.VMControl(i))
	default:
		return dialSocket(ctx, c.nodeDir(i))
	}
}

// dialSocket goes through a descriptor of the directory, since a socket's
// address may not be longer than 107 characters.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	address := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), inside.ControlSocket)
	return (&net.Dialer{}).DialContext(ctx, "unix", address)
}

// nodePID is the pid, as this machine counts, of node i's first process.
func (c *Cluster) nodePID(ctx context.Context, i int) (int, error) {
	all, err := c.Processes(ctx)
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if p.Name == spec.NodeName(i) && !p.Exited {
			return childWithPID(c.PID, p.PID)
		}
	}
	return 0, fmt.Errorf("%s of cluster %s is not running", spec.NodeName(i), c.Name)
}

// childWithPID finds the child of parent that is called pid in the namespace
// below parent's. Not all kernels have lists of children.
func childWithPID(parent, pid int) (int, error) {
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, status := range statuses {
		text, _ := os.ReadFile(status) // a process that has just ended has none
		if above, inner := familyOf(string(text)); above == parent && inner == pid {
			return strconv.Atoi(filepath.Base(filepath.Dir(status)))
		}
	}
	return 0, fmt.Errorf("process %d has no child %d", parent, pid)
}

// familyOf reads a process' status: its parent, and the second of its own pids, which is its name one namespace further in.
func familyOf(status string) (parent, inner int) {
	for line := range strings.Lines(status) {
		if id, ok := strings.CutPrefix(line, "PPid:"); ok {
			parent, _ = strconv.Atoi(strings.TrimSpace(id))
		}
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if all := strings.Fields(ids); len(all) > 1 {
				inner, _ = strconv.Atoi(all[1])
			}
		}
	}
	return parent, inner
}
