package resize

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Minor versions of Kubernetes that change which resizes are possible.
const (
	// MinorResize is the first minor version that enables the resize subresource by default.
	MinorResize = 33
	// MinorMemoryLimitDecrease allows a memory limit to be lowered without a restart; the kubelet checks each
	// container's usage first.
	MinorMemoryLimitDecrease = 34
	// MinorPodLevelResources can resize pods that have pod-level resources.
	MinorPodLevelResources = 36
	// MinorInitContainers can resize init containers that terminate.
	MinorInitContainers = 36
	// MinorResourceClaims can resize pods whose containers have resource claims.
	MinorResourceClaims = 37
)

// FeaturePodLevelResize is the feature in status.declaredFeatures of nodes that can resize pod-level resources.
const FeaturePodLevelResize = "InPlacePodLevelResourcesVerticalScaling"

// Capabilities are the resize capabilities of the API server and one node. The zero value has none: a resize is refused
// unless it is known to work.
type Capabilities struct {
	// Resizable is true if the API server's version serves pods/resize.
	Resizable bool
	// ServerMinor and KubeletMinor are minor versions of Kubernetes 1.x; 0 is not known and counts as old.
	ServerMinor, KubeletMinor int
	// Features are the features that the node declares (status.declaredFeatures).
	Features []string
	// NodeReady is true if the node's Ready condition is True.
	NodeReady bool
	// Pressure lists the node's conditions that make its kubelet defer every resize, such as DiskPressure.
	Pressure []string
	// Windows is true for a Windows node; Kubernetes resizes pods on Linux only.
	Windows bool
	// Policies are settings of the node's kubelet. The Node API does not show them. attune learns each one from the
	// first Infeasible message that names it (NodeFacts).
	Policies
	// Allocatable is the sum that the node's pods may request, in millicores and bytes, indexed by Resource. 0: not
	// known and not checked.
	Allocatable [2]recommender.Amount
}

// CapabilitiesOf reads the capabilities of a node object. server is the server's version from discovery, such as
// v1.36.3. A nil node is not known: only unscheduled pods can then be resized.
func CapabilitiesOf(node *corev1.Node, server string) Capabilities {
	caps := Capabilities{ServerMinor: minor(server)}
	caps.Resizable = caps.ServerMinor >= MinorResize
	if node == nil {
		return caps
	}
	caps.KubeletMinor = minor(node.Status.NodeInfo.KubeletVersion)
	caps.Features = node.Status.DeclaredFeatures
	caps.Windows = node.Labels[corev1.LabelOSStable] == "windows" || node.Status.NodeInfo.OperatingSystem == "windows"
	caps.Allocatable = podview.Amounts(node.Status.Allocatable)
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

// pressures are the conditions in which a kubelet defers every resize, or evicts pods by their requests.
var pressures = []corev1.NodeConditionType{
	corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// minor returns the minor version of a version such as v1.36.3 or v1.36.3-gke.100, or 0 if it cannot be parsed. Each
// reconcile calls it several times per pod, so it uses no regular expression.
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
