// Command deploy installs the operator on the local test cluster, or upgrades it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	values := flag.String("values", "", "values file for the chart")
	imageOnly := flag.String("image", "", "only build the image, as this archive's folder")
	flag.Parse()
	project, err := cluster.ProjectDir()
	if err != nil {
		return err
	}
	if *imageOnly != "" {
		return image(ctx, project, *imageOnly)
	}
	dir := filepath.Join(project, ".cluster")
	c, err := cluster.Attach(dir)
	if err != nil {
		return fmt.Errorf("%w: start it with make cluster-up", err)
	}
	o := deploy.Options{Out: os.Stdout, Alone: true}
	if *values != "" {
		o.Values = []string{*values}
	}
	if err := deploy.Operator(ctx, c, o); err != nil {
		return err
	}
	if _, err := deploy.Plugin(ctx, filepath.Join(dir, "bin")); err != nil {
		return err
	}
	fmt.Println("attune is ready. Try: .cluster/bin/enter kubectl-attune status -A")
	return nil
}

func image(ctx context.Context, project, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	archive, tag, err := deploy.Image(ctx, project, dir)
	if err == nil {
		fmt.Printf("%s has the image docker.io/local/attune:dev, also under the tag %s\n", archive, tag)
	}
	return err
}
