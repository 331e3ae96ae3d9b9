package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// serverIs and kubeletsAre at least of that minor version of Kubernetes 1: what tests show of the platform depends on it.
func serverIs(t *testing.T, minor uint) bool {
	t.Helper()
	config, err := env.cluster.RESTConfig()
	require.NoError(t, err)
	server, err := discovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	info, err := server.ServerVersion()
	require.NoError(t, err)
	return atLeast(t, info.GitVersion, minor)
}

func kubeletsAre(t *testing.T, minor uint) bool {
	t.Helper()
	nodes := &corev1.NodeList{}
	require.NoError(t, env.client.List(t.Context(), nodes))
	return atLeast(t, nodes.Items[0].Status.NodeInfo.KubeletVersion, minor)
}

func atLeast(t *testing.T, text string, minor uint) bool {
	t.Helper()
	v, err := version.ParseSemantic(text)
	require.NoError(t, err)
	return v.AtLeast(version.MajorMinor(1, minor))
}
