package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// poll calls check until it returns nil or ctx ends, whose error then holds
// check's last one.
func poll(ctx context.Context, check func(context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		var last fatalError
		if errors.As(err, &last) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fatalError is one that no waiting will mend.
type fatalError struct{ error }

// awaitNodes waits until pods can be created and will be scheduled.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	cfg, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) error {
		if err := c.checkProcesses(ctx); err != nil {
			return err
		}
		if err := c.checkNodes(ctx, client); err != nil {
			return err
		}
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// checkProcesses says so at once if something has died that nothing will start again.
func (c *Cluster) checkProcesses(ctx context.Context) error {
	select {
	case <-c.ended:
		return fatalError{errors.New("its first process ended, cluster.log says why")}
	default:
	}
	all, err := c.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Exited {
			return fatalError{fmt.Errorf("%s ended with %d, %s.log says why", p.Name, p.Result, p.Name)}
		}
	}
	return nil
}

// checkNodes wants the taints gone too: they go a little after a node is ready.
func (c *Cluster) checkNodes(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) != c.Nodes {
		return fmt.Errorf("%d of %d nodes have registered", len(nodes.Items), c.Nodes)
	}
	for _, node := range nodes.Items {
		if !ready(node) || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("%s is not ready for pods", node.Name)
		}
	}
	return nil
}

func ready(node corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
