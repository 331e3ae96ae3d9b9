package e2e

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sharedNodes are everybody's, and the first. The others are tainted: only pods that name them get there.
const sharedNodes = 3

const (
	// smallNode has little room, so that resizes wait for it: 600m and 1Gi.
	smallNode = iota + sharedNodes + 1
	// staticNode has a static CPU and a static memory manager, and static pods.
	staticNode
	// shakyNode has a kubelet that starts again now and then.
	shakyNode
	// awayNode has one that goes away.
	awayNode
	// tightNode has 1Gi of memory.
	tightNode
	nodes = iota + sharedNodes
)

// reservedTaint keeps everybody else's pods off a node.
const reservedTaint = "e2e.attune.io/reserved"

// staticPods is where the static node's kubelet finds pods of its own.
var staticPods string

// configureKubelet configures those of the special nodes.
func configureKubelet(node int, config map[string]any) {
	reserved := config["systemReserved"].(map[string]any)
	switch node {
	case smallNode:
		reserved["cpu"] = plus(reserved["cpu"], "1300m")
		reserved["memory"] = plus(reserved["memory"], "7Gi")
	case staticNode:
		config["cpuManagerPolicy"] = "static"
		config["memoryManagerPolicy"] = "Static"
		config["reservedMemory"] = []any{map[string]any{"numaNode": 0, "limits": map[string]any{"memory": reserved["memory"]}}}
		config["staticPodPath"] = staticPods
	case tightNode:
		reserved["memory"] = plus(reserved["memory"], "7Gi")
	}
}

func plus(amount any, more string) string {
	sum := resource.MustParse(amount.(string))
	sum.Add(resource.MustParse(more))
	return sum.String()
}

// reserveNodes taints the special nodes before anything runs.
func reserveNodes(ctx context.Context, nodes ...int) error {
	for _, i := range nodes {
		node := &corev1.Node{}
		if err := env.client.Get(ctx, client.ObjectKey{Name: nodeName(i)}, node); err != nil {
			return err
		}
		before := node.DeepCopy()
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: reservedTaint, Effect: corev1.TaintEffectNoSchedule})
		if err := env.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("reserving %s: %w", node.Name, err)
		}
	}
	return nil
}

func nodeName(i int) string { return env.cluster.NodeName(i) }

// onNode has the scheduler put a pod on a node, reserved or not.
func onNode(spec *corev1.PodSpec, i int) {
	spec.NodeSelector = map[string]string{corev1.LabelHostname: nodeName(i)}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: reservedTaint, Operator: corev1.TolerationOpExists})
}
