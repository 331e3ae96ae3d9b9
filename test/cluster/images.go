package cluster

import (
	"context"
	"fmt"
	"os"

	"attune.io/attune/test/cluster/internal/image"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/tools"
)

// WorkloadImage is on every node from the start: a program that uses as much
// CPU and memory as it is told to (see test/workload). Use it with
// imagePullPolicy Never or IfNotPresent.
const WorkloadImage = tools.WorkloadImage

// BuildImage makes an image of one static program and writes it to the archive
// tar. The program will be at entrypoint, an absolute path, and run as an
// unprivileged user. The files in licenses are in the directory /licenses of
// the image.
func BuildImage(tar, binaryPath, entrypoint string, licenses []string, tags ...string) error {
	return image.Write(tar, image.Image{Binary: binaryPath, Entrypoint: entrypoint, Licenses: licenses, Tags: tags})
}

// Load imports the images of the archive tar on every node. Pods that start
// from then on run the new image; those that run keep theirs.
func (c *Cluster) Load(ctx context.Context, tar string) error {
	for i := 1; i <= c.Nodes; i++ {
		if err := c.loadOn(ctx, i, tar); err != nil {
			return fmt.Errorf("loading %s on %s: %w", tar, spec.NodeName(i), err)
		}
	}
	return nil
}

// loadOn hands over the open file: the node may not see its directory.
func (c *Cluster) loadOn(ctx context.Context, i int, tar string) error {
	file, err := os.Open(tar)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd, err := c.NodeCommand(ctx, i, "ctr", "-n", "k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	cmd.Stdin = file
	return run(cmd)
}
