package resize

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Minor versions of Kubernetes that change what a resize may do.
const (
	// MinorResize has the resize subresource on by default.
	MinorResize = 33
	// MinorMemoryLimitDecrease lets a memory limit be lowered without a restart, and has the kubelet
	// check each container's usage first.
	MinorMemoryLimitDecrease = 34
	// MinorPodLevelResources can resize pods that have resources of their own.
	MinorPodLevelResources = 36
	// MinorInitContainers can resize init containers that end.
	MinorInitContainers = 36
	// MinorResourceClaims can resize pods whose containers have resource claims.
	MinorResourceClaims = 37
)

// FeaturePodLevelResize is the feature that a node declares in status.declaredFeatures when it can resize
// pod-level resources.
const FeaturePodLevelResize = "InPlacePodLevelResourcesVerticalScaling"

// Capabilities are what the API server and one node can do. The zero value can do nothing: what is not known to
// work is refused.
type Capabilities struct {
	// Resizable is true where the API server serves pods/resize, judged by its version.
	Resizable bool
	// ServerMinor and KubeletMinor are minor versions of Kubernetes 1.x; 0 is unknown and counts as old.
	ServerMinor, KubeletMinor int
	// Features are those that the node declares (status.declaredFeatures).
	Features []string
	// NodeReady is true where the node's Ready condition is True.
	NodeReady bool
	// Pressure names the node's conditions that make its kubelet defer every resize, such as DiskPressure.
	Pressure []string
	// Windows is true for a Windows node; Kubernetes resizes pods on Linux only.
	Windows bool
	// Policies are settings of the node's kubelet. The Node API does not show them: they are learned from the
	// first Infeasible answer that names one (NodeFacts).
	Policies
	// Allocatable is what pods of the node may request together, in millicores and bytes, indexed by Resource; 0
	// is unknown and not checked.
	Allocatable [2]recommender.Amount
}

// CapabilitiesOf reads what a node says of itself. The server's version is that of discovery, such as
// v1.36.3. A nil node is an unknown one: nothing can be resized there but unscheduled pods.
func CapabilitiesOf(node *corev1.Node, server string) Capabilities {
	caps := Capabilities{ServerMinor: minor(server)}
	caps.Resizable = caps.ServerMinor >= MinorResize
	if node == nil {
		return caps
	}
	caps.KubeletMinor = minor(node.Status.NodeInfo.KubeletVersion)
	caps.Features = node.Status.DeclaredFeatures
	caps.Windows = node.Labels[corev1.LabelOSStable] == "windows" || node.Status.NodeInfo.OperatingSystem == "windows"
	for _, r := range recommender.Resources {
		caps.Allocatable[r] = podview.AmountIn(r, node.Status.Allocatable)
	}
	for _, c := range node.Status.Conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(pressures, c.Type) {
			caps.Pressure = append(caps.Pressure, string(c.Type))
		}
	}
	caps.NodeReady = NodeReady(node)
	return caps
}

// NodeReady reports whether the node's Ready condition is True; false for a nil node.
func NodeReady(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Has reports whether the node declares a feature.
func (c Capabilities) Has(feature string) bool { return slices.Contains(c.Features, feature) }

// pressures are the conditions in which a kubelet defers every resize or evicts pods by what they request.
var pressures = []corev1.NodeConditionType{
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// minor is the minor version of a version such as v1.36.3 or v1.36.3-gke.100; 0 where it cannot be read. It is
// called several times a pass for each pod, so it uses no regular expression.
func minor(v string) int {
	rest, found := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(v), "v"), "1.")
	if !found {
		return 0
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return 0
	}
	return n
}
