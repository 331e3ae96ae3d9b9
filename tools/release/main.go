// Command release makes what a release of attune publishes, and publishes it. RELEASE.md says how a release is made.
//
//	release build    makes every file of a release of a commit
//	release publish  pushes image and chart to a registry, and signs them and the checksums
//	release rehearse does both against a registry in this process, with a new key, and verifies the result as users do
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verbs := map[string]func(context.Context, Release) error{"build": build, "publish": publishOut, "rehearse": rehearse}
	if len(args) == 0 || verbs[args[0]] == nil {
		return errors.New("usage: release build|publish|rehearse [flags]")
	}
	r := Release{Platforms: supported}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&r.Version, "version", "", "version of the release, such as v0.1.0")
	flags.StringVar(&r.Ref, "ref", "HEAD", "commit or tag that is released")
	flags.StringVar(&r.Project, "project", ".", "checkout that has the commit")
	flags.StringVar(&r.Out, "out", "", "directory for the files")
	flags.StringVar(&r.Registry, "registry", "attune.io", "where users pull image and chart from")
	flags.StringVar(&r.URL, "url", "https://attune.io/source", "address of the repository, which has the downloads")
	flags.Var(&r.Platforms, "platforms", "platforms to build for, such as linux/amd64,linux/arm64 (default: all)")
	flags.StringVar(&r.Helm, "helm", "helm", "the program helm")
	flags.StringVar(&r.Cosign, "cosign", "cosign", "the program cosign")
	flags.StringVar(&r.Key, "key", "", "file of cosign's private key; empty: keyless, with the identity of the workflow")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err := r.complete(ctx); err != nil {
		return err
	}
	return verbs[args[0]](ctx, r)
}

// build makes the files of a release from a clean copy of the commit.
func build(ctx context.Context, r Release) error {
	if err := os.RemoveAll(r.Out); err != nil {
		return err
	}
	source, err := os.MkdirTemp("", "attune-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := r.export(ctx, source); err != nil {
		return err
	}
	return r.build(ctx, source)
}

func (r Release) build(ctx context.Context, source string) error {
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return err
	}
	image, err := r.buildImage(ctx, source)
	if err != nil {
		return err
	}
	chart, err := r.packChart(ctx, source, image.digest)
	if err != nil {
		return err
	}
	if err := r.writeLayout(image.index, chart); err != nil {
		return err
	}
	if err := r.writeManifests(ctx); err != nil {
		return err
	}
	if err := r.buildPlugins(ctx, source); err != nil {
		return err
	}
	if err := r.writeKrew(filepath.Join(source, "config/krew/attune.yaml")); err != nil {
		return err
	}
	if err := r.writeProvenance(); err != nil {
		return err
	}
	return r.writeChecksums()
}
