package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"attune.io/attune/test/cluster/internal/spec"
	"sigs.k8s.io/yaml"
)

// StopKubelet ends the kubelet of node i alone: the node's containers run on,
// and the control plane finds out when its heartbeats fail to come.
func (c *Cluster) StopKubelet(ctx context.Context, i int) error {
	return c.control(ctx, i, http.MethodPost, "/stop?name="+url.QueryEscape(kubeletName(i)), nil, nil)
}

// StartKubelet starts the kubelet of node i after it was stopped. A function
// may change its configuration first.
func (c *Cluster) StartKubelet(ctx context.Context, i int, configure ...func(config map[string]any)) error {
	for _, change := range configure {
		if err := c.configureKubelet(i, change); err != nil {
			return err
		}
	}
	description, err := spec.Read(c.dir)
	if err != nil {
		return err
	}
	for _, p := range description.Nodes[i-1].Then {
		if p.Name == kubeletName(i) {
			return c.control(ctx, i, http.MethodPost, "/start", p, nil)
		}
	}
	return fmt.Errorf("nothing says how the kubelet of %s is started", spec.NodeName(i))
}

// RestartKubelet stops the kubelet of node i and starts it again.
func (c *Cluster) RestartKubelet(ctx context.Context, i int, configure ...func(config map[string]any)) error {
	if err := c.StopKubelet(ctx, i); err != nil {
		return err
	}
	return c.StartKubelet(ctx, i, configure...)
}

func (c *Cluster) configureKubelet(i int, change func(config map[string]any)) error {
	path := filepath.Join(c.nodeDir(i), kubeletConfig)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	config := object{}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return err
	}
	change(config)
	return writeYAML(path, config)
}

func (c *Cluster) nodeDir(i int) string { return filepath.Join(c.dir, spec.NodeName(i)) }

// kubeletConfig is a file in each node's directory.
const kubeletConfig = "kubelet.yaml"

// kubeletName is what the kubelet of node i is called among the node's processes.
func kubeletName(i int) string { return spec.NodeName(i) + "-kubelet" }
