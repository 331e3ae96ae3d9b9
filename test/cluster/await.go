package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attune.io/attune/test/await"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pollEvery is how often the cluster is looked at while it starts.
const pollEvery = 50 * time.Millisecond

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
	return await.Until(ctx, "nodes", 0, pollEvery, func(ctx context.Context) error {
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
		return await.Final(errors.New("its first process ended, cluster.log says why"))
	default:
	}
	all, err := c.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.Exited {
			return await.Final(fmt.Errorf("%s ended with %d, %s.log says why", p.Name, p.Result, p.Name))
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
