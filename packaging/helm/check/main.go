// Kubecheck reads Kubernetes objects as YAML from standard input and decodes them into the types of the
// Kubernetes API. An unknown or repeated field, a value of another type and an unknown kind are errors.
// It also checks what belongs together: selectors and labels, names of ports and volumes, services of
// StatefulSets, and a security context without rights. With --environment it prints the variables of
// the containers, one NAME=VALUE on each line, and with --file NAME a file of a ConfigMap.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The user without rights of the image.
const user = 65532

func main() {
	objects, err := decode(os.Stdin)
	if err != nil {
		fail(err)
	}
	switch {
	case len(os.Args) == 1:
		if err := checkAll(objects); err != nil {
			fail(err)
		}
		fmt.Printf("%d objects\n", len(objects))
	case len(os.Args) == 2 && os.Args[1] == "--environment":
		printEnvironment(objects)
	case len(os.Args) == 3 && os.Args[1] == "--file":
		printFile(objects, os.Args[2])
	default:
		fail(errors.New("usage: kubecheck [--environment | --file NAME] < OBJECTS"))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubecheck:", err)
	os.Exit(1)
}

// decode decodes all documents strictly.
func decode(input io.Reader) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	reader := yaml.NewYAMLReader(bufio.NewReader(input))
	var objects []runtime.Object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if isEmpty(string(document)) {
			continue
		}
		object, _, err := serializer.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w, in:\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

func isEmpty(document string) bool {
	for _, line := range strings.Split(document, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// all returns the objects of a type.
func all[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

func checkAll(objects []runtime.Object) error {
	names := map[string]bool{}
	for _, object := range objects {
		accessor, ok := object.(meta.Object)
		if !ok {
			return fmt.Errorf("%T has no name", object)
		}
		name := fmt.Sprintf("%s %s", object.GetObjectKind().GroupVersionKind().Kind, accessor.GetName())
		if accessor.GetName() == "" || names[name] {
			return fmt.Errorf("%q has no name, or two objects have it", name)
		}
		names[name] = true
	}
	sets := all[*apps.StatefulSet](objects)
	if len(sets) != 1 {
		return fmt.Errorf("%d StatefulSets", len(sets))
	}
	if err := checkSet(sets[0], names); err != nil {
		return err
	}
	return checkSelectors(sets[0], objects)
}

func checkSet(set *apps.StatefulSet, names map[string]bool) error {
	if !names["Service "+set.Spec.ServiceName] {
		return fmt.Errorf("there is no service %q of the StatefulSet", set.Spec.ServiceName)
	}
	pod := set.Spec.Template.Spec
	if !names["ServiceAccount "+pod.ServiceAccountName] {
		return fmt.Errorf("there is no service account %q", pod.ServiceAccountName)
	}
	if err := selects("StatefulSet", set.Spec.Selector, set); err != nil {
		return err
	}
	for _, spread := range pod.TopologySpreadConstraints {
		if err := selects("spread over "+spread.TopologyKey, spread.LabelSelector, set); err != nil {
			return err
		}
	}
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
		if volume.ConfigMap != nil && !names["ConfigMap "+volume.ConfigMap.Name] {
			return fmt.Errorf("volume %s: there is no ConfigMap %q", volume.Name, volume.ConfigMap.Name)
		}
	}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		volumes[claim.Name] = true
	}
	for _, container := range pod.Containers {
		if err := checkContainer(container, volumes); err != nil {
			return fmt.Errorf("container %s: %w", container.Name, err)
		}
	}
	return checkRights(pod)
}

func checkContainer(container core.Container, volumes map[string]bool) error {
	paths := map[string]bool{}
	for _, mount := range container.VolumeMounts {
		if !volumes[mount.Name] {
			return fmt.Errorf("there is no volume %q", mount.Name)
		}
		if paths[mount.MountPath] {
			return fmt.Errorf("two volumes at %s", mount.MountPath)
		}
		paths[mount.MountPath] = true
	}
	variables := map[string]bool{}
	for _, variable := range container.Env {
		if variables[variable.Name] {
			return fmt.Errorf("variable %s twice", variable.Name)
		}
		variables[variable.Name] = true
	}
	for name, probe := range map[string]*core.Probe{
		"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || !hasPort(container, probe.HTTPGet.Port) {
			return fmt.Errorf("the %s probe asks no port of the container", name)
		}
	}
	return nil
}

func hasPort(container core.Container, wanted intstr.IntOrString) bool {
	for _, port := range container.Ports {
		if wanted.Type == intstr.String && port.Name == wanted.StrVal {
			return true
		}
	}
	return false
}

// checkRights checks what the restricted profile of Kubernetes asks, the user of the image, and a root
// file system that cannot be written.
func checkRights(pod core.PodSpec) error {
	of := pod.SecurityContext
	if of == nil || of.RunAsNonRoot == nil || !*of.RunAsNonRoot || of.RunAsUser == nil || *of.RunAsUser != user ||
		of.FSGroup == nil || *of.FSGroup != user {
		return fmt.Errorf("the pod does not run as %d", user)
	}
	if of.SeccompProfile == nil || of.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		return errors.New("the pod has no seccomp profile")
	}
	for _, container := range pod.Containers {
		of := container.SecurityContext
		if of == nil || of.AllowPrivilegeEscalation == nil || *of.AllowPrivilegeEscalation ||
			of.ReadOnlyRootFilesystem == nil || !*of.ReadOnlyRootFilesystem ||
			of.Capabilities == nil || len(of.Capabilities.Drop) != 1 || of.Capabilities.Drop[0] != "ALL" {
			return fmt.Errorf("container %s has rights that it does not need", container.Name)
		}
	}
	return nil
}

// checkSelectors checks that everything that selects pods selects those of the set.
func checkSelectors(set *apps.StatefulSet, objects []runtime.Object) error {
	container := set.Spec.Template.Spec.Containers[0]
	for _, service := range all[*core.Service](objects) {
		selector := meta.LabelSelector{MatchLabels: service.Spec.Selector}
		if err := selects("Service "+service.Name, &selector, set); err != nil {
			return err
		}
		for _, port := range service.Spec.Ports {
			if !hasPort(container, port.TargetPort) {
				return fmt.Errorf("Service %s: the container has no port %q", service.Name, port.TargetPort.StrVal)
			}
		}
	}
	for _, budget := range all[*policy.PodDisruptionBudget](objects) {
		if err := selects("PodDisruptionBudget", budget.Spec.Selector, set); err != nil {
			return err
		}
	}
	for _, rule := range all[*networking.NetworkPolicy](objects) {
		if err := selects("NetworkPolicy", rule.Spec.PodSelector.DeepCopy(), set); err != nil {
			return err
		}
	}
	return checkMonitors(objects)
}

// checkMonitors checks that a ServiceMonitor selects exactly one service, so that no pod is scraped twice.
func checkMonitors(objects []runtime.Object) error {
	for _, monitor := range all[*monitoring.ServiceMonitor](objects) {
		selector, err := meta.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil {
			return err
		}
		selected := 0
		for _, service := range all[*core.Service](objects) {
			if selector.Matches(labels.Set(service.Labels)) {
				selected++
				for _, endpoint := range monitor.Spec.Endpoints {
					if !hasServicePort(service, endpoint.Port) {
						return fmt.Errorf("ServiceMonitor: service %s has no port %q", service.Name, endpoint.Port)
					}
				}
			}
		}
		if selected != 1 {
			return fmt.Errorf("the ServiceMonitor selects %d services", selected)
		}
	}
	return nil
}

func hasServicePort(service *core.Service, name string) bool {
	for _, port := range service.Spec.Ports {
		if port.Name == name {
			return true
		}
	}
	return false
}

func selects(what string, by *meta.LabelSelector, set *apps.StatefulSet) error {
	selector, err := meta.LabelSelectorAsSelector(by)
	if err != nil {
		return err
	}
	if selector.Empty() || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		return fmt.Errorf("%s does not select the pods", what)
	}
	return nil
}

func printEnvironment(objects []runtime.Object) {
	for _, set := range all[*apps.StatefulSet](objects) {
		for _, container := range set.Spec.Template.Spec.Containers {
			for _, variable := range container.Env {
				value := variable.Value
				if variable.ValueFrom != nil {
					value = "(of the pod or a secret)"
				}
				fmt.Printf("%s=%s\n", variable.Name, value)
			}
		}
	}
}

func printFile(objects []runtime.Object, wanted string) {
	for _, object := range all[*core.ConfigMap](objects) {
		names := make([]string, 0, len(object.Data))
		for name := range object.Data {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			if name == wanted {
				fmt.Print(object.Data[name])
			}
		}
	}
}
