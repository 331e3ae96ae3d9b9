// Command keda runs KEDA's controller of ScaledObjects alone, with triggers for CPU and memory: the controller and what makes
// its HPAs are KEDA's own. No webhook, no metrics adapter, no ScaledJobs.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	eventingv1alpha1 "github.com/kedacore/keda/v2/apis/eventing/v1alpha1"
	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/controllers/keda"
	"github.com/kedacore/keda/v2/pkg/eventemitter"
	"github.com/kedacore/keda/v2/pkg/k8s"
	"github.com/kedacore/keda/v2/pkg/metricscollector"
	"github.com/kedacore/keda/v2/pkg/scalers/authentication"
	"github.com/kedacore/keda/v2/pkg/scaling"
)

func main() {
	flag.Parse() // controller-runtime's --kubeconfig
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "keda:", err)
		os.Exit(1)
	}
}

// run is what KEDA's cmd/operator does, as far as it is needed.
func run() error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kedav1alpha1.AddToScheme(scheme))
	utilruntime.Must(eventingv1alpha1.AddToScheme(scheme))
	ctx := ctrl.SetupSignalHandler()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	metricscollector.NewMetricsCollectors(metricscollector.Options{EnablePrometheusMetrics: true})
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	scales, _, err := k8s.InitScaleClient(manager)
	if err != nil {
		return err
	}
	const patience = 3 * time.Second
	secrets := informers.NewSharedInformerFactory(clients, 0).Core().V1().Secrets().Lister() // empty: no trigger has any
	events := manager.GetEventRecorder("keda-operator")
	err = (&keda.ScaledObjectReconciler{
		Client: manager.GetClient(), Scheme: scheme, ScaleClient: scales, EventEmitter: eventemitter.EventEmitter{Recorder: events},
		ScaleHandler: scaling.NewScaleHandler(manager.GetClient(), scales, scheme, patience, patience, events,
			&authentication.AuthClientSet{CoreV1Interface: clients.CoreV1(), SecretLister: secrets}),
	}).SetupWithManager(manager, controller.Options{MaxConcurrentReconciles: 5})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}
