package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// raise starts the cluster. It outlives us only where somebody will look around.
func (d *demo) raise(ctx context.Context) (err error) {
	if d.project, err = cluster.ProjectDir(); err != nil {
		return err
	}
	dir := filepath.Join(d.project, ".cluster")
	if _, err := cluster.Attach(dir); err == nil {
		return errors.New("the local cluster is already up, and the demo starts from nothing: run make cluster-down first")
	}
	d.screen.scene("A cluster, without any Prometheus")
	// Kubernetes is linked on one processor; others compile the operator meanwhile. What is wrong with it is said when it is deployed.
	compiled := make(chan struct{})
	go func() {
		defer close(compiled)
		_ = deploy.Compile(ctx, d.project)
	}()
	d.cluster, err = cluster.Start(ctx, cluster.Options{
		Dir: dir, NodeCPU: nodeCPU(runtime.NumCPU()), NodeMemory: "8Gi",
		Detach: d.screen.terminal, Artifacts: os.Getenv("ATTUNE_ARTIFACTS"), Progress: d.screen.out,
	})
	<-compiled
	if err != nil {
		return err
	}
	d.screen.seen("a real Kubernetes with one node")
	return nil
}

// nodeCPU is what the node offers: less than two cores, so that nothing here needs a large machine, and less than all.
func nodeCPU(cores int) string {
	return fmt.Sprintf("%dm", min(cores*1000, 2000)-100)
}

// leave removes the cluster, or says how to look around in it.
func (d *demo) leave(ctx context.Context) error {
	if d.screen.terminal && ctx.Err() == nil {
		d.screen.say(`
The cluster stays up. From %s, see it in a browser with
  make ui
look around with
  .cluster/bin/kubectl get pods,attunepolicies,attunerecommendations -n %s
  .cluster/bin/enter kubectl-attune status -A
  .cluster/bin/enter kubectl-attune history -n %[2]s
and remove it with
  make cluster-down`, d.project, namespace)
		return nil
	}
	if err := d.cluster.Stop(); err != nil {
		return fmt.Errorf("removing the cluster failed, run make cluster-down: %w", err)
	}
	d.screen.say("\nThe cluster is down; nothing of it is left.")
	return nil
}

// prepare installs the operator and creates workloads that it does not know yet.
func (d *demo) prepare(ctx context.Context) (err error) {
	config, err := d.cluster.RESTConfig()
	if err != nil {
		return err
	}
	if d.client, err = newClient(config); err != nil {
		return err
	}
	d.screen.scene("The operator, installed by Helm")
	if d.plugin, err = deploy.Plugin(ctx, filepath.Join(d.cluster.Dir, "bin")); err != nil {
		return err
	}
	// Kubelets that are looked at every 2 s, for people who watch.
	if err := deploy.Operator(ctx, d.cluster, deploy.Options{Alone: true, Set: []string{"usage.interval=2s"}}); err != nil {
		return err
	}
	d.screen.seen("helm install attune charts/attune, and its pods are ready")
	d.screen.scene("Workloads, in a namespace with the label attune.io/inject=enabled")
	if err := d.apply(ctx, "workloads.yaml"); err != nil {
		return err
	}
	if err := d.await(ctx, "the workloads' pods run", patience, d.remember); err != nil {
		return err
	}
	if err := d.importPast(ctx, time.Now()); err != nil {
		return err
	}
	d.screen.seen("a week of history, imported into AttuneRecommendations: from now on the operator measures the kubelets itself")
	return nil
}

// remember notes how the pods are without attune.
func (d *demo) remember(ctx context.Context) error {
	for _, w := range []struct {
		name string
		pods int
	}{{"web", 2}, {"api", 1}, {"leaky", 1}} {
		looks, err := d.looks(ctx, w.name, w.pods)
		if err != nil {
			return err
		}
		for _, l := range looks {
			if err := l.settled(); err != nil {
				return err
			}
			d.first[l.uid] = l
		}
	}
	for _, l := range d.first {
		d.screen.seen("%s runs with %v", l.pod.Name, l.asked)
	}
	return nil
}

// manifests is where they are, from the project's root.
const manifests = "test/demo/manifests"

// apply applies one of our manifests.
func (d *demo) apply(ctx context.Context, manifest string) error {
	path := filepath.Join(manifests, manifest)
	d.screen.typed("kubectl apply -f " + path)
	return d.kubectl(ctx, "apply", "-f", filepath.Join(d.project, path))
}

func (d *demo) kubectl(ctx context.Context, args ...string) error {
	if output, err := d.cluster.Command(ctx, "kubectl", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", args[0], err, output)
	}
	return nil
}

// attune runs the plugin.
func (d *demo) attune(ctx context.Context, args ...string) (string, error) {
	output, err := d.cluster.Command(ctx, d.plugin, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl attune %s: %w\n%s", args[0], err, output)
	}
	return string(output), nil
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}
