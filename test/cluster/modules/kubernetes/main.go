// Command kubernetes is all of Kubernetes' programs that a test cluster needs, in one: it is the one whose name it is
// called by. What they share, which is most, is compiled and linked once.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs have time zones

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // registers a log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // registers a metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs are made only when they are called: making one sets what its whole process shares, such as feature gates.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": manager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if name == "kubectl" {
		util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
		return
	}
	program, known := programs[name]
	if !known {
		fmt.Fprintf(os.Stderr, "no program is called %s: call this by the name of one of Kubernetes' programs\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(program()))
}
